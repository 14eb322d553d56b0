"""The grammar of specs, the readers of options, and what is refused."""

import pytest

from segcertify import InputError
from segcertify.specs import FLAG, INTEGER, NAMES, NUMBERS, POSITIVE, TEXT, Option, literal, parse, with_option

KNOWN = {"flag": FLAG, "count": INTEGER, "width": POSITIVE, "mean": NUMBERS, "names": NAMES, "text": TEXT}


@pytest.mark.parametrize(
    ("text", "scheme", "target", "options"),
    [
        ("", "", "", {}),
        ("pets", "pets", "", {}),
        ("shapes:", "shapes", "", {}),
        ("hrnet?width=4", "hrnet", "", {"width": "4"}),
        ("python:mine:make?a=1&b=x:y", "python", "mine:make", {"a": "1", "b": "x:y"}),
        ("trained:C:/a b/c.pth?", "trained", "C:/a b/c.pth", {}),
        ("camvid:here?split=train+val", "camvid", "here", {"split": "train+val"}),
        ("a:b?file=x%26y%25+z&empty=&bare", "a", "b", {"file": "x&y%+z", "empty": "", "bare": ""}),
        ("a:b?file=what?.png", "a", "b", {"file": "what?.png"}),
    ],
)
def test_parse(text, scheme, target, options):
    spec = parse(text)
    assert (spec.text, spec.scheme, spec.target, spec.options) == (text, scheme, target, options)


def test_an_option_given_twice():
    with pytest.raises(InputError, match=r"'a:b\?x=1&x=2' gives the option 'x' twice: say it once"):
        parse("a:b?x=1&x=2")


def test_read():
    spec = parse("a:b?flag=True&count=-3&width=48&mean=0.5,1&names=x,y&text=a+b")
    assert spec.read(KNOWN) == {
        "flag": True, "count": -3, "width": 48, "mean": [0.5, 1.0], "names": ("x", "y"), "text": "a+b"
    }  # fmt: skip
    assert parse("a:b").read(KNOWN) == {}


def test_read_any_other_options():
    assert parse("a:b?width=4&depth=5&name=").read(KNOWN, others=literal) == {"width": 4, "depth": 5, "name": ""}


def ten(text):
    raise InputError(f"ten must be ten, but got {text}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("widht=4", r"unknown option 'widht' in 'a:b\?widht=4': did you mean 'width'\? Use flag=true .* or text=TEXT$"),
        ("width=", r"width has no value in 'a:b\?width=': write width=NUMBER \(at least 1\), or leave it out"),
        ("text", r"text has no value in 'a:b\?text': write text=TEXT"),
        ("width=0", r"width cannot be '0' in 'a:b\?width=0': write width=NUMBER \(at least 1\)"),
        ("width=-1", "width cannot be '-1'"),
        ("width=1.5", "width cannot be '1.5'"),
        ("width=²", "width cannot be '²'"),
        ("count=1.5", "count cannot be '1.5' in .*: write count=NUMBER"),
        ("flag=yes", r"flag cannot be 'yes' in .*: write flag=true \(or false\)"),
        ("mean=1,a", r"mean cannot be '1,a' in .*: write mean=NUMBER,NUMBER,\.\.\."),
        ("ten=9", "^ten must be ten, but got 9$"),
    ],
)
def test_what_read_refuses(query, message):
    with pytest.raises(InputError, match=message):
        parse(f"a:b?{query}").read({**KNOWN, "ten": Option("10", ten)} if query.startswith("ten") else KNOWN)


@pytest.mark.parametrize("value", ["a.pth", "a&b.pth", "50%.pth", "a%26b", "a+b c=d?"])
@pytest.mark.parametrize("text", ["a:b", "a:b?x=1", "a"])
def test_with_option_comes_back(text, value):
    assert parse(with_option(text, "key", value)).options == {**parse(text).options, "key": value}


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("False", False), ("3", 3), ("-2.5", -2.5), ("1e3", 1000.0), ("a", "a")]
)
def test_plain(text, value):
    assert literal(text) == value
    assert type(literal(text)) is type(value)
