"""Records: what an evaluation found, one JSON line for each scene and setting.

A scene's lines are written at once. If a run is killed at any moment, the file
holds whole scenes and perhaps part of one more, which the next run removes.

Each line has a digest of its record and of all before it, so that a line that was
changed, taken out or moved is noticed. Whatever is wrong, the lines before it are right.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from segcertify.errors import InputError, require_finite, require_integer
from segcertify.storage import atomic, limits
from segcertify.storage.plain_values import loads
from segcertify.storage.reading import is_there, long_lines

Kind = Literal["base", "attacked", "certified", "radius", "metric", "sets", "skipped"]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Record:
    """One scene under one setting.

    A scene that could not be read has one record, of kind "skipped", with the ``reason``. Of all others
    ``kind`` is "base" (the model without noise, one pass), "attacked" (the same
    at the worst input that was found within ``radius``; with a sigma, of the smoothed
    model, from n draws), "certified" (labels at one tau and correction),
    "radius" (how many components are right by agreement count, for curves over
    all radii), "metric" (the ``values`` of a ``metric`` in n noisy runs) or "sets" (sets
    of labels at one tau, by a ``method``, and their counts, ``sets``).
    ``confusion`` is a plain confusion matrix over valid components, ``correct`` the
    counts of "radius", and ``agreement`` those of all tested components, which a cap
    needs. ``components`` and ``abstained`` count all components, valid
    or not, and ``N`` those tested. ``category`` is what a cloud shows, where that
    is known. ``input_radius`` is the radius of "certified" in the units of the scene's
    file, where that differs and is known. Where looks could end the draws, ``used`` of n were made
    and ``saved`` were not.
    """

    id: str
    kind: Kind
    components: int
    valid: int
    category: str | None = None
    sigma: float | None = None
    n: int | None = None
    tau: float | None = None
    correction: str | None = None
    radius: float | None = None
    N: int | None = None
    abstained: int = 0
    confusion: dict[str, Any] | None = None
    correct: list[int] | None = None
    metric: str | None = None
    values: list[float] | None = None
    method: str | None = None
    sets: dict[str, Any] | None = None
    sampling_seconds: float = 0.0
    testing_seconds: float = 0.0
    input_radius: float | None = None
    reason: str | None = None
    used: int | None = None
    saved: int | None = None
    agreement: list[int] | None = None

    @property
    def counted(self) -> int:
        """How many draws were counted: n, or those that were used where a look ended them."""
        return (self.n or 0) if self.used is None else self.used

    @property
    def key(self) -> tuple[Any, ...]:
        """What no two records of a run share: the scene, the kind and the setting."""
        attacked = self.radius if self.kind == "attacked" else None  # of a certificate, the radius is a result
        return self.id, self.kind, self.sigma, self.n, self.tau, self.correction, attacked, self.metric, self.method

    def digest(self, previous: str) -> str:
        """A digest of this record and, by ``previous``, that of the record before it, of all records so far."""
        return hashlib.sha256((previous + json.dumps(self._plain(), sort_keys=True)).encode()).hexdigest()

    def line(self, previous: str) -> str:
        """This record as one line of JSON with its digest, without what is empty."""
        return json.dumps({**self._plain(), "digest": self.digest(previous)}) + "\n"

    def _plain(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class RecordFile:
    """The file of a run's records, whole scenes only, in order. ``digests`` is as in `read_records`.

    Only the names of the scenes that are done, ``ids``, stay in memory: a run may have very many.
    """

    def __init__(self, path: str | os.PathLike[str], *, per_scene: int, digests: bool = True) -> None:
        self._path = Path(path)
        self._per_scene = per_scene
        records = read_records(path, per_scene=per_scene, digests=digests) if is_there(path) else []
        self.ids = list(dict.fromkeys(record.id for record in records))
        self._digest = ""
        text = "".join(self._lines(records))
        *_, last = (0, b""), *enumerate(_stored_lines(self._path) if is_there(path) else (), start=1)
        if last[0] != len(records) or not last[1].endswith(b"\n"):
            atomic.write_text(self._path, text)

    def append(self, records: Sequence[Record]) -> None:
        """Add one scene's records, flushed to the disk before this returns."""
        if len(records) != (1 if any(record.kind == "skipped" for record in records) else self._per_scene):
            raise InputError(f"a scene has {self._per_scene} records, but got {len(records)}")
        before, text = self._digest, "".join(self._lines(records))
        try:
            atomic.append_text(self._path, text)
        except InputError:
            self._digest = before
            raise
        self.ids.append(records[0].id)

    def _lines(self, records: Iterable[Record]) -> Iterator[str]:
        """The lines of the next records."""
        for record in records:
            yield record.line(self._digest)
            self._digest = record.digest(self._digest)


def read_records(path: str | os.PathLike[str], *, per_scene: int | None = None, digests: bool = True) -> list[Record]:
    """The records of a file's whole scenes; of the last scene, what a kill left unfinished is left out.

    A scene has ``per_scene`` records, by default as many as the first. Raises `InputError` if a line is damaged,
    missing or there twice. Without ``digests``, lines may have none, as in the files of earlier versions, up to the
    first that has one.
    """
    records: list[Record] = []
    read: list[Record] = []  # those of scenes that were not skipped
    seen: dict[tuple[Any, ...], int] = {}
    digest, rest, number = "", b"", 0
    for number, line in enumerate(_stored_lines(path), start=1):
        if not line.endswith(b"\n"):
            rest = line
            break
        try:
            record, found = _parsed(line)
            if per_scene is None and read and record.id != read[0].id:
                per_scene = len(read)
            _require_place(record, read, seen, per_scene)
            digest, digests = record.digest(digest), digests or found is not None
            if digests and found is None:
                raise InputError("has no digest: it was changed after it was written")
            if digests and found != digest:
                raise InputError("does not agree with its digest: it, or a line before it, was changed or taken out")
        except InputError as error:
            raise InputError(f"{path}, line {number}, {error}. {_CURE}") from None
        records.append(record)
        read += [record] * (record.kind != "skipped")
        seen[record.key] = number
    if not _is_cut(rest):
        raise InputError(f"{path}, line {number}, has no end: it was changed after it was written. {_CURE}")
    return records[: len(records) - len(read) % (per_scene or len(read) or 1)]


_CURE = "Delete this line and all after it, which segcertify evaluate makes again, or restore the file from a copy"


def _stored_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    missing = f"no records at {path}: run segcertify evaluate first"
    return long_lines(path, most=limits.JSON_BYTES, missing=missing)


def _parsed(line: bytes) -> tuple[Record, str | None]:
    """A line's record, and the digest that it has."""
    try:
        plain = loads(line)
        digest = plain.pop("digest", None)
        record = Record(**plain)
        _require_values(record)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"is not a record ({error})") from None
    return record, digest


def _require_values(record: Record) -> None:
    """Raise `InputError` unless every field has a value of its type."""
    if record.kind not in get_args(Kind):
        raise InputError(f"its kind is {record.kind!r:.40}, not one of {', '.join(get_args(Kind))}")
    for name in ("id", "category", "correction", "method", "metric", "reason"):
        value = getattr(record, name)
        if not isinstance(value, str) and (name == "id" or value is not None):
            raise InputError(f"{name} must be a text, but is {value!r:.40}")
    for name in ("components", "valid", "abstained", "n", "N", "used", "saved"):
        if (value := getattr(record, name)) is not None and require_integer(name, value, at_least=0) > _MOST:
            raise InputError(f"{name} must be at most {_MOST}, but is {value!r:.40}")
    for name in ("sigma", "tau", "radius", "input_radius", "sampling_seconds", "testing_seconds"):
        if (value := getattr(record, name)) is not None and (isinstance(value, str) or require_finite(name, value) < 0):
            raise InputError(f"{name} must be a number of at least 0, but is {value!r:.40}")
    for name in ("confusion", "sets"):
        if not isinstance(value := getattr(record, name), dict | None):
            raise InputError(f"{name} must hold values by name, but is {value!r:.40}")
    _require_counts(record)
    if record.kind == "metric" or record.values is not None:
        _require_runs(record)


def _require_runs(record: Record) -> None:
    """The values of a metric are finite numbers, one for each of n noisy runs."""
    if record.metric is None or record.sigma is None:
        raise InputError("it has no metric, or no sigma at which it was measured")
    values = record.values
    if not isinstance(values, list) or not values or len(values) != record.n:
        raise InputError(f"values must hold a number for each of n={record.n} runs, but is {values!r:.40}")
    if not {*map(type, values)} <= {int, float}:
        raise InputError(f"the values of {record.metric!r:.40} must be numbers, but are {values!r:.40}")
    if require_finite("a value of a metric", largest := max(values, key=abs)) > _MOST or largest < -_MOST:
        raise InputError(f"a value of {record.metric!r:.40} must be at most {_MOST}, but is {largest!r:.40}")


def _require_counts(record: Record) -> None:
    """Draws used and saved add up to n, and those kinds of records that need counts have them."""
    if record.used is not None and record.used + (record.saved or 0) != record.n:
        raise InputError(f"of n={record.n} draws {record.used} cannot be used and {record.saved} saved")
    for name, counts in (("correct", record.correct), ("agreement", record.agreement)):
        if counts is None:
            continue
        if not isinstance(counts, list) or len(counts) != record.counted + 1:
            raise InputError(f"{name} must hold a count for 0 .. {record.counted}, but is {counts!r:.40}")
        if any(require_integer("a count", count, at_least=0) > _MOST for count in counts):
            raise InputError(f"a count of {name} must be at most {_MOST}")
    if record.agreement is not None and sum(record.agreement) != record.N:
        raise InputError(f"agreement must count the N={record.N} tested components, but counts {sum(record.agreement)}")
    needed = {"radius": record.correct, "sets": record.sets}
    if needed.get(record.kind, ()) is None:
        raise InputError("it has no counts of components")


_MOST = 2**53
"""The largest count in a record: sums of such counts are exact, and there is no larger input."""


def _require_place(
    record: Record, before: Sequence[Record], seen: Mapping[tuple[Any, ...], int], per_scene: int | None
) -> None:
    """Raise `InputError` unless a scene has its records one after the other, each once, and those of other scenes."""
    if record.key in seen:
        raise InputError(f"repeats line {seen[record.key]} (scene {record.id!r}, {record.kind})")
    if per_scene is None:
        return
    if (done := len(before) % per_scene) and record.id != before[-1].id:
        scenes = f"is of scene {record.id!r}, but {before[-1].id!r} has {done} of its {per_scene} records"
        raise InputError(f"{scenes}: a line before it was taken out")
    if record.kind != "skipped" and len(before) >= per_scene and (before[0].id, *record.key[1:]) not in seen:
        raise InputError(f"is a record that other scenes do not have (scene {record.id!r}, {record.kind})")


def _is_cut(rest: bytes) -> bool:
    """Whether this is what a kill may leave of a last line, a part of it. A whole record has nothing behind it."""
    text = rest.decode(errors="replace")
    try:
        return json.JSONDecoder().raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return True


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Records by key, in the order in which the keys first come."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups
