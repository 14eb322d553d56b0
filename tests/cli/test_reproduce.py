"""`segcertify reproduce`; the tables are tested in tests/reproduce."""


def test_toy_quick(segcertify, folder):
    assert "text" in segcertify("reproduce", "toy", "--quick", "--out", "toy").text
    assert list((folder / "toy").glob("*.png"))
