"""Which scenes a run is about."""

from __future__ import annotations

import hashlib

import numpy as np

from segcertify.data import DataSet


def scenes_digest(data: DataSet) -> str:
    """A short digest of the scenes' ids and of the first scene: other sizes or labels are other data."""
    words = list(data.ids)
    for scene in data.limit(1):
        arrays = (scene.x, scene.target, scene.valid)
        words += [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
        words.append(str(scene.x.shape))
    return text_digest("\n".join(words))


def text_digest(text: str) -> str:
    """A short digest of a text; of names of files too, in whatever encoding."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
