"""Archives: arrays and a header come back; another kind, an unknown version and a damaged file are refused."""

import numpy as np
import pytest

from segcertify import InputError
from segcertify.storage import archive

ARRAYS = {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": np.array([0.5, -1.0])}


@pytest.fixture
def path(tmp_path):
    archive.write(tmp_path / "x.safetensors", kind="thing", version=2, header={"n": 3}, arrays=ARRAYS)
    return tmp_path / "x.safetensors"


def test_round_trip(path):
    header, arrays = archive.read(path, kind="thing", version=2)
    assert header == {"n": 3}
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_an_older_version_is_read_by_its_migration_alone(path):
    header, _ = archive.read(path, kind="thing", version=3, migrations={2: lambda old: old | {"tau": 0.5}})
    assert header == {"n": 3, "tau": 0.5}
    for migrations in (None, {1: dict}):
        with pytest.raises(InputError, match="has format version 2, but this segcertify reads version 3"):
            archive.read(path, kind="thing", version=3, migrations=migrations)


def test_what_is_refused(path, tmp_path):
    with pytest.raises(InputError, match=r"holds 'segcertify\.thing', not segcertify\.votes"):
        archive.read(path, kind="votes", version=2)
    with pytest.raises(InputError, match="no thing file at"):
        archive.read(tmp_path / "none", kind="thing", version=2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"is not a thing file, or is truncated .* make it again"):
        archive.read(path, kind="thing", version=2)


def test_the_smallest_integers_that_hold_an_array():
    for largest, kind in ((127, np.int8), (128, np.int16), (-40_000, np.int32), (2**40, np.int64)):
        found = archive.smallest_integers(np.array([0, largest]))
        assert found.dtype == kind
        assert found.tolist() == [0, largest]
