"""Records: what an evaluation found, one JSON line for each scene and setting.

A scene's lines are written at once. If a run is killed at any moment, the file
holds whole scenes and perhaps part of one more, which the next run removes.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from segcertify.errors import InputError
from segcertify.storage import atomic

Kind = Literal["base", "attacked", "certified", "radius"]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Record:
    """One scene under one setting.

    ``kind`` is "base" (the model without noise, one pass), "attacked" (the same
    at the worst input that was found within ``radius``; with a sigma, of the smoothed
    model, from n draws), "certified" (labels at one tau and correction) or
    "radius" (how many components are right by agreement count, for curves over
    all radii). ``confusion`` is a plain confusion matrix over valid components,
    ``correct`` the counts of "radius". ``components`` and ``abstained`` count all
    components, valid or not, and ``N`` those tested. ``category`` is what a cloud
    shows, where that is known.
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
    sampling_seconds: float = 0.0
    testing_seconds: float = 0.0

    def line(self) -> str:
        """This record as one line of JSON, without what is empty."""
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})


class RecordFile:
    """The records of a run, whole scenes only, in order."""

    def __init__(self, path: str | os.PathLike[str], *, per_scene: int) -> None:
        self._path = Path(path)
        self._per_scene = per_scene
        self.records = read_records(self._path) if self._path.exists() else []
        whole = len(self.records) // per_scene * per_scene
        if whole < len(self.records) or (self._path.exists() and not self._path.read_bytes().endswith(b"\n")):
            self.records = self.records[:whole]
            atomic.write_text(self._path, _text(self.records))

    @property
    def ids(self) -> list[str]:
        """The scenes that are done."""
        return [record.id for record in self.records[:: self._per_scene]]

    def append(self, records: Sequence[Record]) -> None:
        """Add one scene's records, flushed to the disk before this returns."""
        if len(records) != self._per_scene:
            raise InputError(f"a scene has {self._per_scene} records, but got {len(records)}")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_text(records))
            file.flush()
            os.fsync(file.fileno())
        self.records += records


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """The records of a file; a last line without its end is left out."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no records at {path}: run segcertify evaluate first")
    lines = path.read_text(encoding="utf-8").split("\n")
    records = []
    for number, line in enumerate(lines[:-1], start=1):  # after the last newline there is nothing, or part of a line
        try:
            records.append(Record(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}, line {number}, is not a record ({error}): delete the line or the file") from None
    return records


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Records by key, in the order in which the keys first come."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _text(records: Iterable[Record]) -> str:
    return "".join(record.line() + "\n" for record in records)
