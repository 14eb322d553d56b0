"""Mutants: one change each, in the code that runs, under a name of its own."""

import ast

import pytest

from tools.mutants import mutants, mutate, places, planted, watched

SOURCE = '''
LIMIT = 3


def small(x: int, limit: int = LIMIT) -> bool:
    """Whether x is small."""
    if x < 0:
        raise ValueError(f"{x} is below 0")
    return x <= limit and not x == 2
'''


def run(tree, **known):
    exec(compile(tree, "source", "exec"), known)
    return known


def changed():
    """Index and place of each node that has a mutant."""
    return [(i, place) for i, place in enumerate(places(ast.parse(SOURCE))) if mutate(place.node) is not None]


def test_all_that_runs_is_changed_once():
    texts = {ast.unparse(planted(SOURCE, index)) for index, _ in changed()}
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert len(texts) == len(changed())
    for text in (
        "LIMIT = 4",
        "x <= 0",
        "x < 1",
        "pass",
        "x < limit",
        "or not x == 2",
        "and x == 2",
        "x != 2",
        "x == 3",
    ):
        assert any(text in each for each in texts), text
    assert all("is below 0" in each or "pass" in each for each in texts)  # no message is changed


@pytest.mark.parametrize(("text", "where"), [("LIMIT = 3", ""), ("x < 0", "small"), ("x == 2", "small")])
def test_where_a_change_runs(text, where):
    """What runs at import cannot be planted in a loaded function."""
    found = next(place for _, place in changed() if text in ast.unparse(place.node) or text in place.where.statement)
    assert found.where.runs_in == where


def test_statements_that_are_reached_are_noted():
    seen = set()
    small = run(watched(SOURCE, "a.py"), __reached__=seen.add)["small"]
    assert not seen
    assert small(1)
    assert seen == {"a.py:6", "a.py:7", "a.py:9"}
    with pytest.raises(ValueError, match="-1 is below 0"):
        small(-1)
    assert "a.py:8" in seen


def test_names_tell_mutants_apart():
    """A name says which results and reasons are whose; a few long ones are told apart by numbers."""
    every = mutants()
    assert len({mutant.name for mutant in every}) == len(every) > 300
    assert all(mutant.module.startswith("segcertify.") for mutant in every)
