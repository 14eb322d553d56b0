"""Archives: whatever is written is read back, and a file that was changed anywhere is refused."""

import json

import numpy as np
import pytest
from headers import rewrite_header

from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.errors import InputError
from segcertify.noise import Gaussian
from segcertify.storage import archive
from segcertify.votes import Votes

HEADER = {"text": "é", "numbers": [1, 2.5, None], "pair": (3, 4)}
ARRAYS = {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": np.array(True), "none": np.zeros((0, 3), np.float32)}
CHANGED = "it was changed or damaged after it was written"


@pytest.fixture
def path(tmp_path):
    """A small file of version 2."""
    archive.write(tmp_path / "a", kind="thing", version=2, header=HEADER, arrays=ARRAYS)
    return tmp_path / "a"


def read(path, migrations=None):
    return archive.read(path, kind="thing", version=2, migrations=migrations)


def test_round_trip(path):
    header, arrays = read(path)
    assert header == {**HEADER, "pair": [3, 4]}
    assert {name: (each.dtype, each.tolist()) for name, each in arrays.items()} == {
        name: (each.dtype, each.tolist()) for name, each in ARRAYS.items()
    }


def votes_file(path):
    votes = Votes(np.array([3, 5]), np.array([100, 70]), n=100, n0=10, noise=Gaussian(0.25), seed=7, input_id="a")
    votes.save(path)
    return lambda: Votes.load(path)


def certificate_file(path):
    votes = Votes(np.array([3, 5]), np.array([100, 70]), n=100, n0=10, noise=Gaussian(0.25), seed=7, input_id="a")
    certify_votes(votes, tau=0.75, alpha=0.001).save(path)
    return lambda: Certificate.load(path)


def thing_file(path):
    archive.write(path, kind="thing", version=2, header=HEADER, arrays=ARRAYS)

    def load():
        header, arrays = archive.read(path, kind="thing", version=2)
        return json.dumps(header), {name: (each.dtype.name, each.tolist()) for name, each in sorted(arrays.items())}

    return load


def content(loaded):
    """All that was loaded, as one text."""
    fields = vars(loaded) if hasattr(loaded, "__dict__") else {"all": loaded}
    return str({name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in fields.items()})


@pytest.mark.parametrize("make", [votes_file, certificate_file, thing_file])
def test_one_flipped_bit_anywhere_is_refused_or_changes_nothing(make, tmp_path):
    """Every bit of the file, one after the other."""
    path = tmp_path / "file.safetensors"
    load = make(path)
    whole, raw, accepted, wrong = content(load()), path.read_bytes(), [], []
    for bit in range(8 * len(raw)):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = content(load())
        except InputError:
            continue
        accepted.append(bit)
        if found != whole:
            wrong.append(bit)
    assert not wrong, f"{len(wrong)} of {8 * len(raw)} flipped bits gave another content"
    assert len(accepted) < 0.01 * 8 * len(raw)


def test_a_changed_header_and_a_changed_array_are_named(path):
    raw = path.read_bytes()
    for old, new in ((b"2.5", b"3.5"), (b"thing", b"think")):
        path.write_bytes(raw.replace(old, new))
        with pytest.raises(InputError, match=CHANGED if old == b"2.5" else "holds 'segcertify.think'"):
            read(path)
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"a does not agree with its integrity digest: {CHANGED}. Restore it"):
        read(path)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"shape":[2,3]', b'"shape":[3,2]'), (b'"dtype":"I16"', b'"dtype":"F16"'), (b'"a":{', b'"c":{')]
)
def test_another_name_type_or_shape_of_the_same_bytes_is_refused(path, old, new):
    raw = path.read_bytes()
    assert raw.count(old) == 1
    path.write_bytes(raw.replace(old, new))
    with pytest.raises(InputError, match=CHANGED):
        read(path)


def without_digest(version):
    def change(about):
        del about["digest"]
        about["version"] = version

    return change


def test_a_file_of_this_version_needs_a_digest(path):
    rewrite_header(path, without_digest(2))
    with pytest.raises(InputError, match=rf"has no integrity digest, which files of format version 2 have: {CHANGED}"):
        read(path)


def test_older_versions_are_read_by_migration_and_nothing_else(path):
    rewrite_header(path, without_digest(1))
    with pytest.raises(InputError, match="has format version 1, but this segcertify reads version 2"):
        read(path)
    header, _ = read(path, migrations={1: lambda header: {**header, "more": True}})
    assert header["more"]


def test_an_older_version_with_a_digest_must_agree_with_it(tmp_path):
    archive.write(tmp_path / "a", kind="thing", version=1, header=HEADER, arrays=ARRAYS)
    assert read(tmp_path / "a", migrations={1: dict})[0]["text"] == "é"
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(b"2.5", b"3.5"))
    with pytest.raises(InputError, match=CHANGED):
        read(tmp_path / "a", migrations={1: dict})


def test_the_smallest_integers_that_hold_an_array():
    for largest, kind in ((127, np.int8), (128, np.int16), (-40_000, np.int32), (2**40, np.int64)):
        found = archive.smallest_integers(np.array([0, largest]))
        assert found.dtype == kind
        assert found.tolist() == [0, largest]


def test_what_is_no_such_file(path, tmp_path):
    with pytest.raises(InputError, match=r"holds 'segcertify\.thing', not segcertify\.votes"):
        archive.read(path, kind="votes", version=2)
    with pytest.raises(InputError, match="no thing file at"):
        read(tmp_path / "none")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"is not a thing file, or is truncated .* make it again"):
        read(path)
