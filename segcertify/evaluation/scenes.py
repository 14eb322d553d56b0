"""The scenes of a run: a digest of them, and the records of one."""

import hashlib
from typing import Any

import numpy as np

from segcertify import metrics
from segcertify.arrays import IntArray
from segcertify.data import DataSet, Scene
from segcertify.records import Kind, Record
from segcertify.records.run_folder import text_digest
from segcertify.votes import Votes


def scenes_digest(data: DataSet) -> str:
    """A short digest of the scenes' ids and of the first scene: other sizes or labels are other data."""
    words = list(data.ids)
    for scene in data.limit(1):
        arrays = (scene.x, scene.target, scene.valid)
        words += [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
        words.append(str(scene.x.shape))
    return text_digest("\n".join(words))


def labels_record(scene: Scene, kind: Kind, labels: IntArray, *, classes: int, **fields: Any) -> Record:
    """The record of a scene whose components got these labels."""
    matrix = metrics.confusion(labels, scene.target, scene.valid, classes=classes)
    return _record(scene, kind, confusion=metrics.to_plain(matrix), **fields)


def radius_record(scene: Scene, votes: Votes, *, sigma: float) -> Record:
    """Right candidates by agreement count: the certified accuracy at every radius at once."""
    correct = metrics.radius_counts(votes, scene.target, scene.valid).tolist()
    return _record(scene, "radius", sigma=sigma, n=votes.n, N=votes.N, correct=correct)


def _record(scene: Scene, kind: Kind, **fields: Any) -> Record:
    components, valid = scene.target.size, int(scene.valid.sum())
    return Record(scene.id, kind, components=components, valid=valid, category=scene.category or None, **fields)
