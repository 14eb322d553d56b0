"""Settings: how claims are written."""

import pytest
import typer

import segcertify as sc
from segcertify.cli.options import claim_of, claims_of, seed_number
from segcertify.records import Setting

CLAIM = Setting(0.25, 100, 0.75)


@pytest.mark.parametrize(
    "text", ["sigma=0.25,n=100,tau=0.75", "tau=0.75,sigma=.25,n=100", "n=100, tau=0.75, sigma=0.25"]
)
def test_a_setting_in_any_order(text):
    assert claim_of(text) == CLAIM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.25,100,0.75", "--setting takes names: write --setting sigma=0.25,n=100,tau=0.75 instead of 0.25,100,0.75"),
        ("1", "unknown name '1' in --setting 1: use sigma, n or tau"),
        ("sigma=0.25,n=100", "lacks tau: write sigma=0.25,n=100,tau=0.75"),
        ("sigma=0.25,n=100,taw=0.75", "unknown name 'taw' in --setting .*: did you mean 'tau'"),
        ("sigma=0.25,n=100,n=9,tau=0.75", "names n twice"),
        ("sigma=0.25,n=1e2,tau=0.75", "holds no number .*'1e2'"),
        ("sigma=0,n=100,tau=0.75", "sigma must be positive"),
        ("sigma=0.25,n=100,tau=0.3", r"tau must lie in \[0.5, 1\)"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(sc.InputError, match=message):
        claim_of(text)


def test_one_claim_or_several():
    several = ["sigma=0.25,n=100,tau=0.75", "sigma=0.5,n=300,tau=0.9"]
    assert claims_of(None, sigma=0.25, n=None, tau=None) == [CLAIM]
    assert claims_of(None, sigma=0.5, n=300, tau=0.9) == [Setting(0.5, 300, 0.9)]
    assert claims_of(several, sigma=None, n=None, tau=None) == [CLAIM, Setting(0.5, 300, 0.9)]
    with pytest.raises(sc.InputError, match="use one form or the other"):
        claims_of(several, sigma=None, n=100, tau=None)
    with pytest.raises(sc.InputError, match=r"name a claim with --sigma 0.25 --n 100 --tau 0.75"):
        claims_of(None, sigma=None, n=100, tau=None)


def test_seeds_are_decimal_or_hexadecimal():
    assert [seed_number(text) for text in ("7", "0x1f", str(2**127 + 1), hex(2**127 + 1))] == [7, 31, *[2**127 + 1] * 2]


@pytest.mark.parametrize("text", ["-1", "1.5", "seven", ""])
def test_bad_seeds(text):
    with pytest.raises(typer.BadParameter, match="a seed is a whole number from 0 on"):
        seed_number(text)
