"""The folder of an evaluation: the configuration, the records and the files of its scenes."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from segcertify.errors import InputError
from segcertify.names import file_names
from segcertify.numerals import exact
from segcertify.records.record import Kind, Record, RecordFile, grouped, read_records
from segcertify.records.settings import Configuration, Setting
from segcertify.records.stored_settings import require_settings
from segcertify.sampling.seeds import Seed
from segcertify.storage import atomic
from segcertify.storage.plain_values import digest_of, read_json
from segcertify.storage.reading import is_there
from segcertify.storage.same_run import require_same_run

NOTES = {
    "identity": "it is of another network (weights, or settings such as scales, views?), or of an earlier segcertify",
    "scenes": "it is of other scenes (another limit, every k-th, size or labels?), or of an earlier segcertify",
    "answers": "the model has no weights to know it by, and its labels of the first scene are others now",
}
"""What another value of a setting means, where the values say nothing to a reader."""

FORMAT = 2
"""Of a run's folder. In format 2, ``config.json`` and every line of ``records.jsonl`` have a digest."""

OLD_NOISES = {f"{axis}-rotation": f"rotation:{axis}" for axis in "xyz"}
"""The names of noises that earlier versions stored, and what they are called now."""


class _Expected(TypedDict):
    per_scene: int
    digests: bool


class Past(NamedTuple):
    """The scenes that are done, and those of them that were skipped, with the reasons."""

    ids: tuple[str, ...]
    skipped: dict[str, str]


class RunFolder:
    """``config.json``, ``records.jsonl``, ``thumbnails/``, ``votes/``, ``certified/`` and ``resume-*.safetensors``.

    ``scenes`` are the ids of all its scenes; whoever only reads the folder need not give them.
    """

    def __init__(self, path: str | os.PathLike[str], scenes: Sequence[str] = ()) -> None:
        self.path = Path(path)
        self._config, self._records = self.path / "config.json", self.path / "records.jsonl"
        self._names = file_names(scenes)

    @property
    def claimed(self) -> bool:
        """Whether an evaluation has begun here."""
        return is_there(self._config)

    @property
    def seed(self) -> Seed | None:
        """The seed of the evaluation that has begun here; None if none has."""
        found = self.configuration() if self.claimed else {}
        return Seed(found["seed"], found["seed_given"]) if "seed" in found else None

    @property
    def threads(self) -> int | None:
        """How many threads each process has that draws for the evaluation that has begun here; None if not known."""
        return self.configuration()["threads"] if self.claimed else None

    @property
    def batch_size(self) -> int | None:
        """The batch size that was asked for when the evaluation began here; None if none was, or none has begun."""
        return self.configuration()["batch_size"] if self.claimed else None

    def claim(self, configuration: Configuration) -> None:
        """Make the folder, or check that it is this run's. Raises `InputError` if another run began here."""
        wanted = asdict(configuration)
        if self.claimed:
            found = self.configuration()
            if found["noises"] is None:  # an earlier version's: the name and the data set decide what is drawn
                del wanted["noises"]
            if found["threads"] is None:
                del wanted["threads"]
            if None in (found["answers"], wanted["answers"]):  # an earlier version's, or nothing is left to draw
                del wanted["answers"]
            del wanted["batch_size"]  # a smaller one may be what lets a run go on
            require_same_run(found, wanted, where=self.path, notes=NOTES)
        else:
            stored = json.loads(json.dumps({"format": FORMAT, **wanted}))  # as it will be read
            atomic.write_text(self._config, json.dumps(stored | {"digest": digest_of(stored)}, indent=2) + "\n")

    def configuration(self) -> dict[str, Any]:
        """The stored configuration, in the form of today: the files of earlier versions are migrated."""
        return self._stored()[1]

    def _stored(self) -> tuple[int, dict[str, Any]]:
        """The format of the folder, and the configuration in the form of today. Raises `InputError` if damaged."""
        missing, cure = f"no evaluation at {self.path}: it has no config.json", "use another folder, or delete it"
        found = read_json(self._config, missing=missing, cure=cure)
        needed = ("model", "data", "scenes", "settings")
        if not all(name in found for name in needed):
            raise InputError(f"{self._config} is no evaluation's configuration: {cure}")
        digest, intact = found.pop("digest", None), digest_of(found)
        version = found.pop("format", 1)
        if version not in (1, FORMAT):
            raise InputError(
                f"{self.path} has format {version!r}, but this segcertify reads formats 1 and {FORMAT}: use the "
                "segcertify that wrote it, or another folder"
            )
        if digest != intact and not (digest is None and version == 1):
            raise InputError(
                f"{self._config} does not agree with its digest: it was changed or damaged after it was written. "
                "Restore it from a copy, or evaluate again in another folder"
            )
        found = _migrated(found)
        try:
            require_settings(found)
        except (InputError, TypeError, KeyError) as error:
            raise InputError(f"{self._config} is no evaluation's configuration ({error}): {cure}") from None
        return version, found

    def records(self) -> list[Record]:
        """The records of all finished scenes. Raises `InputError` if the configuration asks for others."""
        records, found = read_records(self._records, **self._expected()), self.configuration()
        wanted = _kinds(found), _measured(found), _attacked(found)
        for scene, group in grouped(records, lambda record: record.id).items():
            kinds = Counter(record.kind for record in group)
            measured = {(each.metric, each.sigma, each.n) for each in group if each.kind == "metric"}
            attacked = {(each.sigma, each.radius) for each in group if each.kind == "attacked"}
            if "skipped" not in kinds and (kinds, measured, attacked) != wanted:
                raise InputError(
                    f"{self._records}: the records of scene {scene!r} are not those that config.json asks for: "
                    "restore the folder from a copy, or evaluate again in another one"
                )
        return records

    def past(self) -> Past:
        """What is recorded by now of the scenes; nothing where no evaluation has begun."""
        records = self.records() if self.claimed and self._records.is_file() else []
        skipped = {record.id: record.reason or "" for record in records if record.kind == "skipped"}
        return Past(tuple(dict.fromkeys(record.id for record in records)), skipped)

    def record_file(self) -> RecordFile:
        """The file to which each scene's records are appended."""
        return RecordFile(self._records, **self._expected())

    def _expected(self) -> _Expected:
        """How many records a scene has, and whether all their lines have digests."""
        version, found = self._stored()
        return {"per_scene": _kinds(found).total(), "digests": version == FORMAT}

    def votes(self, scene_id: str, sigma: float) -> Path:
        """The file of a scene's votes, if they are kept."""
        return self.path / "votes" / f"{self._names[scene_id]}-sigma{exact(sigma)}.safetensors"

    def all_votes(self, sigma: float) -> list[Path]:
        """The votes that were kept of one sigma."""
        return sorted((self.path / "votes").glob(f"*-sigma{exact(sigma)}.safetensors"))

    def pictures(self, scene_id: str, setting: Setting, correction: str) -> Path:
        """How the names of a certificate's pictures begin."""
        return self.path / "certified" / f"{self._names[scene_id]}-{_claim_name(setting, correction)}"

    @property
    def colours(self) -> Path:
        """The file that tells the classes' colours in thumbnails."""
        return self.path / "thumbnails" / "colours.json"

    def thumbnail(self, scene_id: str, setting: Setting | None = None, correction: str = "") -> Path:
        """The small picture of a scene's labels: a certificate's, or without a setting the base model's."""
        claim = "base" if setting is None else _claim_name(setting, correction)
        return self.path / "thumbnails" / f"{self._names[scene_id]}-{claim}.jpg"

    def checkpoint(self, scene_id: str, sigma: float) -> Path:
        """The file from which a scene's sampling resumes."""
        return self.path / f"resume-{self._names[scene_id]}-sigma{exact(sigma)}.safetensors"


def _claim_name(setting: Setting, correction: str) -> str:
    """What the files of a claim are called by."""
    return f"sigma{exact(setting.sigma)}-n{setting.n}-tau{exact(setting.tau)}-{correction}"


def _kinds(found: Mapping[str, Any]) -> Counter[Kind]:
    """How many records of each kind a scene has, by a stored configuration."""
    settings = len(found["settings"])
    counts: dict[Kind, int] = {
        "base": 1,
        "radius": len(_largest(found)),
        "certified": settings * len(found.get("corrections", ())),
        "attacked": len(_attacked(found)),
        "metric": len(_measured(found)),
        "sets": settings * len(found["sets"]),
    }
    return Counter({kind: count for kind, count in counts.items() if count})


def _measured(found: Mapping[str, Any]) -> set[tuple[str, float, int]]:
    """The metrics of a scene's records, each with its sigma and n."""
    names = found["metrics"]["names"] if found["metrics"] is not None else ()
    return {(name, sigma, n) for name in names for sigma, n in _largest(found).items()}


def _attacked(found: Mapping[str, Any]) -> set[tuple[float | None, float]]:
    """The sigma (None of the base model) and the radius of each record of an attack."""
    if (attack := found["attack"]) is None:
        return set()
    smoothed = _largest(found) if attack["smoothed"] else ()
    radii = attack["radii"]
    return {(None, radius) for radius in radii} | {(sigma, radius) for sigma in smoothed for radius in (0.0, *radii)}


def _largest(found: Mapping[str, Any]) -> dict[float, int]:
    """The largest n of each sigma."""
    settings = found["settings"]
    return {each["sigma"]: max(s["n"] for s in settings if s["sigma"] == each["sigma"]) for each in settings}


def text_digest(text: str) -> str:
    """A short digest of a text; of file names too, in whatever encoding."""
    try:
        content = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character that no file's name has
        content = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


def _migrated(found: dict[str, Any]) -> dict[str, Any]:
    """A configuration of any version as one of today.

    The oldest runs were of images under Gaussian noise, without attacks. Earlier versions described the model by a
    digest called ``weights``, and stored of the noise only a name, or that of a function with brackets. All their seeds
    were given.
    """
    found = {
        "noise": "gaussian", "categories": {}, "attack": None, "k": None, "noises": None, "seed_given": True,
        "preprocessing": None, "metrics": None, "sets": [], "looks": None, "cap": None, "threads": None,
        "batch_size": None, "answers": None, **found,
    }  # fmt: skip
    found["noise"] = OLD_NOISES.get(str(found["noise"]), found["noise"])
    found.setdefault("identity", found.pop("weights", ""))
    return found
