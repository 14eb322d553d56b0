"""Settings: what they refuse, and what follows from them."""

import math

import pytest

import segcertify as sc
from segcertify.records import AttackSettings, Configuration, Setting, distinct


def test_default_radii_of_an_attack():
    assert AttackSettings().with_radii([1.0, 0.5, 0.0]).radii == (0.5, 1.0, 2.0, 4.0)
    assert AttackSettings().with_radii([2.0], largest=math.pi).radii == (2.0, math.pi)
    assert AttackSettings(radii=(3.0,)).with_radii([2.0]).radii == (3.0,)
    with pytest.raises(sc.InputError, match="no setting certifies a radius above 0"):
        AttackSettings().with_radii([0.0])


def test_the_draws_of_a_sigma_are_shared():
    settings = distinct([(0.5, 60, 0.75), Setting(0.25, 100, 0.75), (0.5, 90, 0.6)])
    fields = {"model": "", "identity": {}, "data": "", "classes": (), "categories": {}, "scenes": "", "corrections": ()}
    fields |= {"n0": 1, "alpha": 0.1, "seed": 0, "noise": "gaussian", "precision": "fp32", "device": "cpu"}
    configuration = Configuration(settings=settings, **fields)
    assert configuration.sigmas == (0.5, 0.25)
    assert configuration.largest_n == {0.5: 90, 0.25: 100}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "hinge"}, "unknown loss 'hinge' for an attack: use cross-entropy, segpgd or cospgd"),
        ({"radii": (-1.0,)}, "the radius of an attack must be positive, but got -1.0"),
        ({"radii": (1.0, 1.0)}, "must all be different"),
        ({"steps": 0}, "the steps of an attack must be an integer not less than 1"),
        ({"restarts": 0}, "the restarts of an attack must be"),
        ({"smoothed": -1}, "smoothed must be an integer not less than 0"),
    ],
)
def test_bad_attacks(arguments, message):
    with pytest.raises(sc.InputError, match=message):
        AttackSettings(**arguments)
