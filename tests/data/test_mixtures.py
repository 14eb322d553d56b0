"""Mixture: several data sets as one."""

import numpy as np
import pytest

from segcertify.data import load, mixture
from segcertify.data.domain import CLOUD
from segcertify.errors import InputError

CHAIRS, MUGS = "shapes:?count=3&category=Chair&points=64", "shapes:?count=2&category=Mug&points=64"


def test_scenes_come_in_order_each_as_often_as_asked():
    chairs, mugs = load(CHAIRS), load(MUGS)
    mixed = mixture([chairs, mugs], [1, 2])
    assert [scene.category for scene in mixed] == ["Chair"] * 3 + ["Mug"] * 4
    assert np.array_equal(mixed[5].x, mugs[0].x)
    assert np.array_equal(mixed[2].target, chairs[2].target)
    assert len(set(mixed.ids)) == len(mixed) == 7
    assert mixed.domain is CLOUD
    assert mixed.name == f"{chairs.name} and 2 times {mugs.name}"
    assert mixed.limit(2).domain is CLOUD


def test_one_data_set_stays_as_it_is():
    chairs = load(CHAIRS)
    assert mixture([chairs]) is chairs
    assert len(mixture([chairs], [4])) == 12


def test_what_cannot_be_mixed_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least one"):
        mixture([])
    with pytest.raises(InputError, match="each of the 2 data sets, but got 1"):
        mixture([load(CHAIRS), load(MUGS)], [2])
    with pytest.raises(InputError, match="times must be"):
        mixture([load(CHAIRS)], [0])
    with pytest.raises(
        InputError, match=r"a mixture has at most 1,000,000 scenes, but times=.* makes"
    ):  # took all memory
        mixture([load(CHAIRS)], [2**31])
