"""What a part of the campaign tried, and what it found: the rows of the campaign's table."""

import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path

KINDS = {
    "lost": "work that was done and is gone, or must be done again",
    "doubled": "work or scenes counted twice",
    "silent": "a damaged or wrong file or name that was believed, and changed a result",
    "raw": "an exception that is not an InputError, or a traceback on the terminal",
    "hanging": "over 5 seconds of processor time before an answer, where no long work was asked for",
    "memory": "over 2 GiB of memory",
    "ran": "code, or a write outside the folders that were named",
    "left": "temporary files that stay",
}
"""Every kind of defect, in words."""


@dataclass
class Tally:
    """The attempts of one part, and the defects among them by kind, with an example or two of each."""

    part: str
    tried: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    seed: int | None = None

    def add(self, kind: str | None, example: str = "") -> None:
        """One more attempt; ``kind`` is None if all was well."""
        self.tried += 1
        if kind is not None:
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is not a kind of defect: {', '.join(KINDS)}")
            self.found[kind] += 1
            self.examples.setdefault(kind, [])
            if len(self.examples[kind]) < 20:
                self.examples[kind].append(_without_paths(example)[:500])

    def save(self, path: Path) -> None:
        """Write the tally as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {each.name: getattr(self, each.name) for each in fields(self)} | {"found": dict(self.found)}
        path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Tally":
        """Read what `save` wrote."""
        content = json.loads(path.read_text())
        return cls(**{**content, "found": Counter(content["found"])})


def _without_paths(text: str) -> str:
    """A text without the folders of the machine that it was found on."""
    for name, folder in {"PACKAGES": sys.prefix, "PROJECT": os.getcwd(), "TEMPORARY": tempfile.gettempdir()}.items():
        text = text.replace(folder, name)
    return text
