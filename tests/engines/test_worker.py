"""Errors that travel from workers."""

import pickle
import threading

import pytest

import segcertify as sc
from segcertify.engines.worker import lost_too_often, portable


@pytest.mark.parametrize("error", [sc.InputError("x is empty"), sc.ModelError("the model failed"), KeyError("a")])
def test_errors_travel_as_they_are(error):
    assert portable(error) is error
    assert pickle.loads(pickle.dumps(error)).args == error.args


class NeedsTwoError(Exception):
    def __init__(self, one, two):
        super().__init__(one)


class HoldsALockError(Exception):
    pass


def test_errors_that_cannot_travel_are_told_in_words():
    held = HoldsALockError("no")
    held.lock = threading.Lock()
    for error in (NeedsTwoError("first", "second"), held):
        told = portable(error)
        assert isinstance(told, sc.ModelError)
        assert type(error).__name__ in str(told)


def test_the_end_of_a_run_names_the_cause_and_a_cure():
    assert "2 workers were lost at the same work (the last one hung). If memory" in str(lost_too_often("hung", 2))
