"""The frame of the pages that a browser opens from a file: one file each, which needs no other and reaches no network.

A page consists of its own body, style and script (``NAME.html``, ``.css``, ``.js``), those that all pages share
(``page.*``), those of the panel beside an image or a cloud (``panel*.*``), and data. The data is JSON, and its texts
enter the page as text alone. The content security policy allows this one script and this one style, by their digests,
and nothing else.
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
    files = ["page", *([] if name == "run" else ["panel"]), name]
    style, script = ("".join(_part(f"{file}.{kind}") for file in files) for kind in ("css", "js"))
    panel = {part: _part(f"{part}.html") for part in ("panel-top", "panel-rest")}
    parts = {
        "script-hash": _source(script), "style-hash": _source(style), "style": style, "script": script,
        "body": _filled(_part(f"{name}.html"), panel), "data": script_json(data),
    }  # fmt: skip
    return _filled(_part("page.html"), parts)


def encoded(values: Array, dtype: str) -> str:
    """The values' bytes as a text, which the pages' function ``decode`` reads."""
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def packed(values: Array, largest: int) -> dict[str, str]:
    """Integers from 0 to ``largest``, compressed, which the pages' function ``unpacked`` reads."""
    kind = "u1" if largest < 2**8 else "u2" if largest < 2**16 else "u4"
    content = zlib.compress(values.astype(f"<{kind}").tobytes(), 9)
    return {"kind": kind, "bytes": encoded(np.frombuffer(content, np.uint8), "u1")}


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with each ``{{name}}`` replaced by its part; marks within parts mean nothing."""
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda found: parts[found[1]], template)


def _part(file: str) -> str:
    return resources.files("segcertify.figures").joinpath(file).read_text("utf-8")


def _source(text: str) -> str:
    """What a content security policy calls a script or a style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
