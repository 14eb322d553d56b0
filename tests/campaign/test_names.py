"""The campaign's small part in CI: hostile names in every output."""

import warnings

from tests.campaign import names
from tests.campaign.findings import Tally


def test_no_name_acts_in_an_output(monkeypatch):
    from segcertify.cli import printing

    for each in (printing.console, printing.notes):  # the part sets them
        monkeypatch.setattr(each, "_file", each._file)
        monkeypatch.setattr(each, "_width", each._width)
    tally = Tally("names")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        names.run(tally, count=len(names.HOSTILE) + 30, seed=0, drawings=15)
    assert tally.tried > 800
    assert not tally.found, tally.examples
