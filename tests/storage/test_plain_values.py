"""Plain values: JSON and TOML as they are, and one error for whatever is neither."""

import json

import pytest

from segcertify import InputError
from segcertify.storage import limits, plain_values

BAD = {
    "[" * 100_000: "nested deeper than 64 levels",
    "[" * 65 + "]" * 65: "nested deeper than 64 levels",
    "1" * 301: "a number has 301 digits, but at most 300 are read",
    "NaN": "it holds nan",
    "[1e999]": "it holds inf",
    '{"a": 1, "a": 1}': "the name 'a' comes twice",
    '"\\ud800"': "half of a character",
    "{": "it is not JSON",
    "": "it is not JSON",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_json(text):
    with pytest.raises(InputError, match=BAD[text]):
        plain_values.loads(text)


def test_good_json():
    value = {"a": [1, 2.5, None, True, "\udcff", 2**128], "b": {}}
    assert plain_values.loads(json.dumps(value)) == value
    assert plain_values.loads(json.dumps(value).encode()) == value
    assert plain_values.loads("[-Infinity]", finite=False) == [-float("inf")]
    assert plain_values.loads("[" * 63 + "]" * 63)
    with pytest.raises(InputError, match="it is not JSON"):
        plain_values.loads(b"\xff")


def test_files(tmp_path):
    path = tmp_path / "a"
    for content, message in [
        (b"[1]", "must hold values by name, but holds list: cure"),
        (b"{", r"cannot be read \(it is not JSON.*: cure"),
        (b"\xff", "is not a text"),
        (b"1" * (limits.JSON_BYTES + 1), "bytes, but at most"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            plain_values.read_json(path, cure="cure")
    path.write_text('{"a": 1}')
    assert plain_values.read_json(path, cure="") == {"a": 1}
    with pytest.raises(InputError, match=r"^none$"):
        plain_values.read_json(tmp_path / "b", cure="", missing="none")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "a = " + "1" * 5000, "a = nan", "a", "a = 1\na = 2", "a = [" * 2]
)
def test_bad_toml(text, tmp_path):
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match=r"is not TOML.*: correct it"):
        plain_values.read_toml(tmp_path / "a", cure="correct it")


def test_good_toml(tmp_path):
    (tmp_path / "a").write_text("a = [1, 2]\n[b]\nc = 'd'\n")
    assert plain_values.read_toml(tmp_path / "a", cure="") == {"a": [1, 2], "b": {"c": "d"}}


def test_digests_do_not_depend_on_the_order():
    assert plain_values.digest_of({"a": 1, "b": [2]}) == plain_values.digest_of({"b": [2], "a": 1})
    assert plain_values.digest_of({"a": 1}) != plain_values.digest_of({"a": 1.5})
