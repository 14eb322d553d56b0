"""The frame of the pages that a browser opens from a file: one file each, which needs no other and reaches no network.

A page consists of its own body, style and script (``NAME.html``, ``.css``, ``.js``), those that all pages share
(``page.*``), and data. The data is JSON, and its texts enter the page as text alone. The content security policy
allows this one script and this one style, by their digests, and nothing else.
"""

import base64
import hashlib
import re
import zlib
from importlib import resources
from typing import Any

import numpy as np

from segcertify.arrays import Array
from segcertify.names import script_json


def built(name: str, data: dict[str, Any]) -> str:
    """The page of this name (``"cloud"``, ``"image"`` or ``"run"``) with its data; the same data give the same text."""
    style, script = (_part(f"page.{kind}") + _part(f"{name}.{kind}") for kind in ("css", "js"))
    parts = {
        "script-hash": _source(script), "style-hash": _source(style), "style": style, "body": _part(f"{name}.html"),
        "data": script_json(data), "script": script,
    }  # fmt: skip
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def encoded(values: Array, dtype: str) -> str:
    """The values' bytes as a text, which the pages' function ``decode`` reads."""
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def packed(values: Array, largest: int) -> dict[str, str]:
    """Integers from 0 to ``largest``, compressed, which the pages' function ``unpacked`` reads."""
    kind = "u1" if largest < 2**8 else "u2" if largest < 2**16 else "u4"
    content = zlib.compress(values.astype(f"<{kind}").tobytes(), 9)
    return {"kind": kind, "bytes": encoded(np.frombuffer(content, np.uint8), "u1")}


def _part(file: str) -> str:
    return resources.files("segcertify.figures").joinpath(file).read_text("utf-8")


def _source(text: str) -> str:
    """What a content security policy calls a script or a style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
