"""Oxford pets: values and splits."""

import numpy as np
import pytest
import trees

from segcertify import InputError, data


def test_pets(tmp_path):
    trees.pets(tmp_path)
    whole, train, val = (data.load(f"pets:{tmp_path}", split=split) for split in (None, "train", "val"))
    assert whole.name == "pets/trainval"
    assert whole.classes == ("background", "cat", "dog")
    assert (len(whole), len(train), len(val)) == (23, 20, 3)
    assert sorted(train.ids + val.ids) == list(whole.ids)
    assert val.ids == whole.every(10).ids
    trees.write(whole.items[0].label, raw := trees.values(3, (9, 12), [0, 1, 2, 255]))
    np.testing.assert_array_equal(whole[0].target, np.where(raw == 255, 0, raw))
    np.testing.assert_array_equal(whole[0].valid, raw != 255)
    with pytest.raises(InputError, match="no split 'test' in pets: use trainval, train, val"):
        data.load(f"pets:{tmp_path}", split="test")
