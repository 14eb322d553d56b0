"""Files of sets: what goes in comes out, and what cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest
from segmenters import NOISE

import segcertify as sc
from segcertify.storage import archive

SETS = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0]], bool)
GOOD = sc.SetCertificate(
    SETS,
    np.array([0, -1, -1], np.int32),
    NOISE.radius(0.75),
    "l2",
    0.75,
    0.01,
    "holm",
    100,
    0,
    NOISE,
    3,
    classes=3,
    seed=4,
)


def test_a_file_gives_the_same_certificate(tmp_path):
    GOOD.save(tmp_path / "sets")
    found = sc.SetCertificate.load(tmp_path / "sets")
    assert np.array_equal(found.sets, GOOD.sets)
    assert np.array_equal(found.labels, GOOD.labels)
    assert (found.claim, found.date, found.radius) == (GOOD.claim, GOOD.date, GOOD.radius)
    assert archive.read_content(tmp_path / "sets").arrays["sets"].nbytes == 3  # a bit for each label


def test_the_claim():
    assert GOOD.claim == (
        "With probability at least 1 - 0.01 over the noise draws, for all 3 tested components and all perturbations of "
        "l2 norm at most 0.168622 at once, the smoothed model's majority label, where there is one, is in its set; "
        "where a label is certified (1 components), it is that label. A set of one label that is not certified means: "
        "this label or no majority. This assumes that input and model were fixed before the seed was chosen."
    )
    assert GOOD.only.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sets": SETS.astype(int)}, "sets must be boolean"),
        ({"sets": SETS[:, :2]}, "sets must be boolean"),
        ({"sets": np.zeros((3, 3), bool)}, "sets are empty"),
        ({"labels": np.array([1, -1, -1])}, "must hold that label alone"),
        ({"labels": np.array([0, 1, -1])}, "must hold that label alone"),
        ({"labels": np.array([3, -1, -1])}, "labels reach 3"),
        ({"classes": 4}, "sets are of 3 classes"),
        ({"excludes": False}, "excludes=False is for full sets"),
        ({"radius": 1.0}, "proves a radius of"),
        ({"alpha": 2.0}, "alpha must lie in"),
        ({"N": 9}, "cannot have been tested"),
        ({"correction": "bh"}, "does not give the guarantee"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(sc.InputError, match=message):
        replace(GOOD, **change)


def test_a_changed_file_is_refused(tmp_path):
    GOOD.save(tmp_path / "sets")
    header, arrays = archive.read(tmp_path / "sets", kind="sets", version=1)
    archive.write(tmp_path / "sets", kind="sets", version=1, header={**header, "alpha": 7.0}, arrays=arrays)
    with pytest.raises(sc.InputError, match="not a complete file of sets"):
        sc.SetCertificate.load(tmp_path / "sets")
    GOOD.save(tmp_path / "sets")
    data = bytearray((tmp_path / "sets").read_bytes())
    data[-1] ^= 128
    (tmp_path / "sets").write_bytes(bytes(data))
    with pytest.raises(sc.InputError, match="integrity digest"):
        sc.SetCertificate.load(tmp_path / "sets")
