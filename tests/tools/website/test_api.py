"""The reference has every public name, under the module that defines it."""

import re

import pytest

import segcertify as sc
from tools.website import api
from tools.website.docstrings import with_examples


def test_every_public_name_is_in_the_reference():
    listed = [name for group in api.GROUPS for name in group.names]
    assert sorted(listed) == sorted(set(sc.__all__) - {"__version__"})


def test_entries_name_where_things_are_defined():
    page = api.pages()["docs/reference/certify.md"]
    assert "::: segcertify.sampling.smooth.certify\n" in page
    assert "heading: sc.certify\n" in page
    assert "::: segcertify.sampling.cohen.predict\n" in page
    models = api.pages()["docs/reference/models.md"]
    assert set(sc.models.__all__) <= set(re.findall(r"heading: sc\.models\.(\w+)", models))


@pytest.mark.parametrize("text", ["Adds.", "Adds.\n\nExamples\n--------\n>>> 1\n1"])
def test_docstrings_without_loose_examples_stay(text):
    assert with_examples(text) == text


def test_loose_examples_get_a_heading():
    assert with_examples("Adds.\n\n>>> 1 + 1\n2") == "Adds.\n\nExamples\n--------\n>>> 1 + 1\n2"
