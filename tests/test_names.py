"""Names as data: each kind of output."""

import csv
import io
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segcertify import names

TEXT = st.text(st.characters(), max_size=40)


@given(TEXT)
def test_what_is_shown_has_one_line_and_can_be_written(text):
    shown = names.visible(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert names.visible(shown) == shown


@pytest.mark.parametrize(
    "text", ["road", "road_sign", "caf\u00e9 1", "\u4e2d\u6587", "0006R0", "a-b.c", "[0, 1]", "x (y)", "p > 0.5"]
)
def test_ordinary_names_stay(text):
    assert names.visible(text) == names.markdown(text) == names.plotted(text) == text
    assert names.csv_line([text]) == (f'"{text}"\n' if "," in text else f"{text}\n")


@given(st.lists(TEXT, unique=True, max_size=20))
def test_no_two_names_share_a_file(texts):
    found = names.file_names(texts)
    folded = [unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()) for name in found.values()]
    assert len(set(folded)) == len(texts)
    for name in (*found.values(), *map(names.file_name, texts)):
        assert name
        assert name[0] not in ".-"
        assert "/" not in name
        assert len(name.encode()) <= names.LONGEST
    assert len(set(map(names.file_name, texts))) == len(texts)


def test_a_name_made_to_look_like_the_short_form_of_another_gets_its_own_file():
    texts = ["a b", "a_b"]
    for _ in range(6):
        texts += [name for name in names.file_names(texts).values() if name not in texts]
        found = names.file_names(texts)
        assert len(set(found.values())) == len(texts)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "-rf", "CON", "nul.txt", "a/b", "a\\b", "x" * 240, "\udcff", "a.", " ", "cafe\u0301"],
)
def test_a_bad_file_name_is_replaced(name):
    assert names.file_name(name) != name
    assert names.file_name(name).isprintable()


@pytest.mark.parametrize("name", ["a", "photo 1", "caf\u00e9", "frankfurt_000294", "a.b"])
def test_a_good_file_name_stays(name):
    assert names.file_name(name) == name


def test_earlier_runs_find_their_files():
    """As version 0.2.0 named them."""
    assert names.file_names(["frankfurt/a_1", "x y"]) == {"frankfurt/a_1": "frankfurt_a_1", "x y": "x_y"}
    assert names.file_names(["x y", "x_y"])["x y"] == f"x_y-{names.digest('x y')[:8]}"


@given(TEXT)
def test_csv_holds_no_formula_and_tells_names_apart(text):
    [[cell]] = csv.reader(io.StringIO(names.csv_line([text or "x"])))
    first = cell.lstrip()[:1]
    assert first not in tuple("=@") or not first
    assert not (
        first in tuple("+-")
        and first
        and not cell.lstrip("+-").replace(".", "").replace("e", "").isdecimal()
        and cell != "-"
    )


def test_a_dash_with_an_escape_is_a_formula_too():
    assert names.csv_line(["-\t", "-", " - "]) == "'-\\t,-, - \n"


def test_latex_has_no_command_left():
    assert names.latex("\\input{x}") == r"\textbackslash{}input\{x\}"
    assert names.latex(" [2pt]") == " {[}2pt]"  # spaces after \\\\ are passed over
    assert names.latex("[2pt] a--b ~^<") == r"{[}2pt] a-{}-b \textasciitilde{}\textasciicircum{}\textless{}"


def test_a_page_cannot_be_left():
    assert names.html('<b a="1">') == "&lt;b a=&quot;1&quot;&gt;"
    assert "<" not in names.script_json({"a": "</script><!--"})
    with pytest.raises(ValueError):
        names.script_json(float("nan"))


@pytest.mark.parametrize(
    "escape", [names.visible, names.markdown, names.latex, names.plotted, names.file_name, names.code, names.shortened]
)
@pytest.mark.parametrize("part", ["a", "\x1b", "_", "[", "`", "-", "\\", "'"])
def test_time_is_linear_in_the_length(escape, part):
    def seconds(length):
        start = time.process_time()
        escape(part * length)
        return time.process_time() - start

    assert seconds(200_000) < 2  # a quadratic one takes minutes


def test_shortened_names_differ():
    long = ["a" * 500 + end for end in "xy"]
    short = [names.shortened(name, 40) for name in long]
    assert short[0] != short[1]
    assert {len(name) for name in short} == {40}
