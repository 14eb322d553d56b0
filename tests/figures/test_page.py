"""The frame of the pages: what it allows, and what names can do in it."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from browser import Elements

from segcertify.figures.page import built, encoded

EVIL = "{{script}}</script><!--<script><img src=x onerror=\"document.title='owned'\">{{data}}"


@pytest.mark.parametrize("name", ["cloud", "image", "run"])
def test_the_policy_allows_this_script_and_this_style_alone(name):
    text = built(name, {"title": "a"})
    policy = re.search(r'content="(default-src[^"]*)"', text)[1]
    found = {
        tag: re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1].encode() for tag in ("script", "style")
    }  # the data's element has a type
    for tag, content in found.items():
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.search(r"\son[a-z]+=|style=|javascript:", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)|@import|url\(|fetch\(|XMLHttpRequest|innerHTML", text)


@pytest.mark.parametrize("name", ["cloud", "image", "run"])
def test_data_is_data(name):
    """Neither markup nor the template's own marks mean anything in it."""
    page, harmless = Elements(built(name, {"title": EVIL})), Elements(built(name, {"title": "a"}))
    assert json.loads(page.scripts[0]) == {"title": EVIL}
    assert (page.tags, page.scripts[1:]) == (harmless.tags, harmless.scripts[1:])


def test_values_are_encoded_in_the_byte_order_of_browsers():
    assert base64.b64decode(encoded(np.array([1, 258]), "<i4")) == b"\1\0\0\0\2\1\0\0"
