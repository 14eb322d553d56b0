"""The scenes of a run: a digest of them, and the records of one."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from segcertify import metrics
from segcertify.arrays import FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.data import DataSet, Scene
from segcertify.errors import InputError
from segcertify.numerals import counted
from segcertify.progress import progress_bar
from segcertify.records import Kind, Record
from segcertify.records.run_folder import text_digest
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.groups import Groups
from segcertify.votes import Votes


def scenes_digest(data: DataSet, readable: DataSet) -> str:
    """A short digest of the scenes' ids and of the first that can be read: other sizes or labels are other data."""
    words = list(data.ids)
    for scene in readable.limit(1):
        arrays = (scene.x, scene.target, scene.valid)
        words += [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
        words.append(str(scene.x.shape))
    return text_digest("\n".join(words))


def labels_digest(labels: IntArray) -> str:
    """A digest of all labels of a scene: it tells a model without weights from others."""
    return hashlib.sha256(f"{labels.shape}:".encode() + labels.astype("<i4").tobytes()).hexdigest()[:16]


def broken_scenes(
    data: DataSet, indices: Iterable[int], *, progress: bool | None, compared: bool = False
) -> dict[str, str]:
    """The scenes that cannot be used, and why: each is read once, which is quick beside certifying it.

    If a metric is ``compared`` with ground truth, a scene without any cannot be used either.
    """
    wanted, broken = list(indices), dict[str, str]()
    with progress_bar(len(wanted), "reading all scenes once", show=progress) as advance:
        for index in wanted:
            try:
                if not data[index].valid.any() and compared:
                    raise InputError("nothing in it has ground truth, with which a metric could be compared")
            except InputError as error:
                broken[data.ids[index]] = str(error)
            advance(1)
    return broken


def require_readable(data: DataSet, broken: Mapping[str, str], *, skip: bool) -> DataSet:
    """The scenes that can be read. Raises `InputError` if some cannot, unless they are to be skipped, or if all."""
    if broken and not skip:
        name, reason = next(iter(broken.items()))
        more = f", and {counted(len(broken) - 1, 'scene')} more" if len(broken) > 1 else ""
        raise InputError(
            f"{data.name}, scene {name!r}: {reason}{more}. Mend the files, or skip such scenes (--skip-broken), which "
            "the report then names"
        )
    items = tuple(item for item in data.items if item.id not in broken)
    if not items:
        raise InputError(f"no scene of {data.name} can be read: {next(iter(broken.values()))}")
    return data if not broken else replace(data, items=items)


def skipped_record(scene_id: str, reason: str) -> Record:
    """The record of a scene that could not be read."""
    return Record(scene_id, "skipped", components=0, valid=0, reason=reason)


def labels_record(scene: Scene, kind: Kind, labels: IntArray, *, classes: int, **fields: Any) -> Record:
    """The record of a scene whose components got these labels."""
    matrix = metrics.confusion(labels, scene.target, scene.valid, classes=classes)
    return _record(scene, kind, confusion=metrics.to_plain(matrix), **fields)


def radius_record(scene: Scene, votes: Votes, *, sigma: float, capped: bool = False) -> Record:
    """Right candidates by agreement count: the certified accuracy at every radius at once.

    If radii are capped, also all tested components by agreement count: a cap's levels depend on them.
    """
    correct = metrics.radius_counts(votes, scene.target, scene.valid).tolist()
    counted = {"agreement": votes.histogram().tolist()} if capped else {}
    return _record(
        scene, "radius", sigma=sigma, n=votes.planned, N=votes.N, correct=correct, **draws_used(votes), **counted
    )


def draws_used(votes: Votes) -> dict[str, int]:
    """How many of the planned draws were made and how many saved, as records keep it; nothing without looks."""
    return {"used": votes.n, "saved": votes.planned - votes.n} if votes.looks else {}


def metric_record(scene: Scene, name: str, values: FloatArray, *, sigma: float) -> Record:
    """The values of a metric in all noisy runs of one sigma, in the order of the draws."""
    return _record(scene, "metric", sigma=sigma, n=len(values), metric=name, values=values.tolist())


def sets_record(scene: Scene, found: SetCertificate | Groups, *, classes: int, **fields: Any) -> Record:
    """The record of a scene whose components got these sets of labels."""
    counts = metrics.set_counts(found, scene.target, scene.valid, classes=classes)
    abstained = int(np.count_nonzero(found.labels == ABSTAIN))
    return _record(scene, "sets", sets=metrics.sets_to_plain(counts), abstained=abstained, **fields)


def _record(scene: Scene, kind: Kind, **fields: Any) -> Record:
    components, valid = scene.target.size, int(scene.valid.sum())
    return Record(scene.id, kind, components=components, valid=valid, category=scene.category or None, **fields)
