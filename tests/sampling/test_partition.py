"""Partition: batches of one size hold all draws once, and some of the first batch again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segcertify.sampling.cross_talk import ENTRIES
from segcertify.sampling.partition import Partition, Places, evenly


@given(st.integers(1, 500), st.integers(1, 80), st.integers(1, 4))
def test_even_sizes_add_up_and_are_as_few_as_possible(count, most, at_least):
    sizes = evenly(count, most, at_least=at_least)
    assert sum(sizes) == count
    assert max(sizes) <= max(most, 1)
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == max(-(-count // most), at_least)


def batches(left, most):
    """All batches of a run in which the first one's draws are asked again where there are places."""
    partition, found, owed = Partition(), [], 0
    while left:
        places = partition.next(left, most, owed)
        owed = min(ENTRIES, places.size) if places.others_follow else 0
        left -= places.new
        found.append(places)
    return found


@given(st.integers(1, 3000), st.integers(1, 400))
def test_every_draw_has_a_place(count, most):
    found = batches(count, most)
    assert sum(places.new for places in found) == count
    assert all(places.new > 0 and places.size <= most for places in found)


@given(st.integers(20, 3000), st.integers(20, 400))
def test_the_second_batch_is_as_large_as_the_first_and_has_places_for_its_draws(count, most):
    first, second, *_ = batches(count, most)
    assert first.others_follow
    assert (second.again, second.size) == (ENTRIES, first.size)


@given(st.integers(20, 3000), st.integers(20, 400))
def test_few_places_are_wasted(count, most):
    """In a whole run no more than there are batches."""
    found = batches(count, most)
    assert sum(places.spare for places in found) < len(found)


def test_known_runs():
    assert batches(110, 170) == [Places(58, others_follow=True), Places(52, again=6)]
    sizes = batches(10_010, 394)
    assert {places.size for places in sizes} == {371}
    assert (len(sizes), sizes[-1].spare) == (27, 1)  # one batch more, and 19 places less to fill up
    assert [places.size for places in batches(110, 10)] == [9] * 13
    assert batches(3, 170) == [Places(3)]
    assert batches(1, 170) == [Places(1)]


def test_without_places_for_draws_of_the_first_all_are_even():
    partition = Partition(again=False)
    assert [partition.next(left, 8, 0) for left in (30, 22, 14, 7)] == [Places(8), Places(8), Places(7), Places(7)]


def test_one_batch_may_hold_all_draws():
    assert Partition(or_one=True).next(110, 170, 0) == Places(110)
    assert Partition(or_one=True).next(110, 100, 0) == Places(58, others_follow=True)


def test_batches_of_another_size_are_made_where_too_much_would_be_wasted():
    partition = Partition()
    assert partition.next(35, 100, 0) == Places(21, others_follow=True)
    assert partition.next(25, 100, 0) == Places(25)  # not 42
    assert partition.next(40, 100, 0) == Places(21)  # and one of 19 and two that fill it up
    assert partition.next(19, 100, 0) == Places(19, spare=2)


def test_where_memory_ran_out_batches_get_a_new_size():
    partition = Partition()
    assert partition.next(110, 170, 0).size == 58
    assert partition.next(110, 29, 6) == Places(29, others_follow=True)


@pytest.mark.parametrize("owed", [21, 30])
def test_a_batch_always_has_new_draws(owed):
    partition = Partition()
    partition.next(35, 100, 0)
    assert partition.next(35, 100, owed).new > 0
