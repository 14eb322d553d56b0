"""The subjects of the campaign: each is read twice alike, and what a person wrote is told from what lost its digest."""

import pytest

from tests.campaign.kinds import WRITTEN
from tests.campaign.stored_files import make_recipe, written_by_hand


@pytest.mark.parametrize("subject", [each for each in WRITTEN if each.digest], ids=lambda subject: subject.name)
def test_a_good_file_is_read_as_it_is_every_time(subject, tmp_path):
    path = subject.make(tmp_path)
    content = path.read_bytes()
    good = subject.read(path)
    path.write_bytes(content)
    assert subject.same(subject.read(path), good)


def test_only_a_recipe_without_format_and_digest_counts_as_written_by_hand(tmp_path):
    content = make_recipe(tmp_path).read_bytes()
    assert not written_by_hand(content)
    assert not written_by_hand(content.replace(b'"digest"', b'"digesT"'))
    assert not written_by_hand(b'{"digest": "x"}')
    assert not written_by_hand(b"{")
    assert written_by_hand(b"{}")
    assert written_by_hand(b'{"lr": 0.1}')
