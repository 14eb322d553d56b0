"""The names of noises: every noise has one, and comes back from it."""

import pytest

from segcertify import AxisRotation, Gaussian, InputError, Laplace, Rotation, Uniform
from segcertify.noise import (
    FAMILIES,
    NAMES,
    NoiseName,
    common_name,
    described,
    from_plain,
    identified,
    is_proven,
    name_of,
    parse,
    to_plain,
)

NOISES = {
    "gaussian": Gaussian(0.25),
    "gaussian?channels=0,2": Gaussian(0.25, (0, 2)),
    "gaussian?channels=0,1,2&axis=1": Gaussian(0.25, (0, 1, 2), 1),
    "laplace": Laplace(0.25),
    "uniform": Uniform(0.25),
    "rotation": Rotation(0.25),
    "rotation?vectors=1": Rotation(0.25, vectors=1),
    "rotation:z": AxisRotation(0.25),
    "rotation:x?vectors=2": AxisRotation(0.25, "x", 2),
    "rotation:1,1,0": AxisRotation(0.25, (1, 1, 0)),
    "rotation:0.5,-2.25,1e-05": AxisRotation(0.25, (0.5, -2.25, 1e-5)),
}


@pytest.mark.parametrize(("text", "noise"), NOISES.items(), ids=NOISES)
def test_names_and_noises_are_each_others(text, noise):
    assert parse(text)(0.25) == noise
    assert str(parse(text)) == str(name_of(noise)) == text
    assert parse(text) == name_of(noise)


def test_a_name_is_canonical():
    assert str(parse("gaussian?axis=0&channels=2,0")) == "gaussian?channels=2,0"
    assert str(parse("rotation:1.0,0,0")) == "rotation:1,0,0"


def test_every_family_has_a_name():
    assert NAMES == ("gaussian", "laplace", "uniform", "rotation:z", "rotation")
    for name, family in zip(NAMES, FAMILIES.values(), strict=True):
        assert parse(name) == NoiseName(family.noise)
        assert type(parse(name)(family.usual)) is family.noise


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gausian", "unknown noise 'gausian': did you mean 'gaussian'"),
        ("z-rotation", "unknown noise 'z-rotation': did you mean 'rotation'.*rotation:z"),
        ("laplace:z", "laplace noise has no axis of rotation, but got 'laplace:z'"),
        ("laplace?channels=1", "unknown option 'channels'"),
        ("gaussian?chanels=1", "did you mean 'channels'"),
        ("gaussian?channels=a", "channels cannot be 'a'"),
        ("gaussian?channels=1,1", "must be different"),
        ("rotation:w", "axis must be 'x', 'y', 'z' or three numbers, not all 0, but got 'w'"),
        ("rotation:1,1", "axis must be"),
        ("rotation?vectors=0", "vectors must be an integer not less than 1"),
    ],
)
def test_bad_names(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_a_class_of_the_same_name_is_another_noise():
    """It would be read back as ours, with our radius."""
    other = type("Gaussian", (Gaussian,), {"__module__": "elsewhere"})(0.25)
    assert not is_proven(other)
    assert described(other) == "elsewhere.Gaussian(sigma=0.25, channels=None, axis=0)"
    assert identified(other)["type"] == "elsewhere.Gaussian"
    with pytest.raises(InputError, match="cannot be written to a file"):
        to_plain(other)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ({0.1: Gaussian(0.1), 0.2: Gaussian(0.2)}, "gaussian"),
        ({0.1: Gaussian(0.1, (0, 1)), 0.2: Gaussian(0.2, (0, 1))}, "gaussian?channels=0,1"),
        ({0.1: Rotation(0.1, vectors=1)}, "rotation?vectors=1"),
        ({0.1: Gaussian(0.1), 0.2: Gaussian(5)}, "Gaussian(sigma=0.1) at sigma=0.1, Gaussian(sigma=5.0) at sigma=0.2"),
        ({0.1: Gaussian(0.1), 0.2: Laplace(0.2)}, "Gaussian(sigma=0.1) at sigma=0.1, Laplace(b=0.2) at sigma=0.2"),
    ],
)
def test_noises_have_a_common_name_only_if_it_makes_them(made, name):
    assert common_name(made) == name


def test_a_noise_of_another_class_has_no_name():
    class Other(Gaussian):
        pass

    with pytest.raises(InputError, match="noise must be one of the classes Gaussian, Laplace"):
        name_of(Other(0.25))


@pytest.mark.parametrize("values", [None, "gaussian", ["Gaussian", 0.25], 0.25])
def test_what_is_no_stored_noise_is_refused(values):
    with pytest.raises(InputError, match="a noise must be its class and parameters by name, but got"):
        from_plain(values)
