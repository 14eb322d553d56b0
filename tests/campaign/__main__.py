"""The test campaign: kill, damage, fuzz and attack the program, and count what does not hold.

    python -m tests.campaign --part formats --count 100000 --seed 0
    python -m tests.campaign --render

Each part is a module of this folder with ``run(tally, *, count, seed)``, which adds each of its attempts to a `Tally`.
Results go to results/campaign/PART.json; ``--render`` writes the page from them. ``--label before`` stores them under
another label: the same part, run on older code, for the table's other column.
"""

import argparse
import importlib
import time
from pathlib import Path

from tests.campaign.findings import KINDS, Tally

PARTS = {
    "bits": "every bit of one file of each kind, flipped",
    "formats": "malformed files of every kind that is read",
    "bombs": "small files that ask for much memory or time",
    "paths": "odd paths: loops of links, pipes, folders, no permission",
    "commands": "random command lines, in one process",
    "processes": "random command lines as real processes",
    "two_processes": "two commands at once in one folder",
    "names": "hostile names of classes, files and data in every output",
    "exploits": "files that try to run code or to write elsewhere",
    "kills": "kill -9 and signals at random moments, then the same command again",
    "disks": "full and read-only disks, folders that cannot be used, models that fail",
}
"""Each part's module, and what it tries."""

OUT = Path(__file__).resolve().parents[2] / "results" / "campaign"


def page(out: Path) -> str:
    """The table of all parts that have been run, before and now."""
    lines = [
        "# The test campaign\n",
        "Written by `python -m tests.campaign --render` from the JSON files beside it. Do not edit.\n",
        "Both columns are of one campaign. **Before** is version 0.3.0 without its locks, digests of records and "
        "questions of trust, at smaller counts; kinds of files that it does not have are left out. **Now** is the code "
        "beside this page, or what it was when the part was last run; seed and minutes are of that run.\n",
        "| part | what is tried | before: defects of attempts | now: defects of attempts | seed | minutes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for part, what in PARTS.items():
        if (out / f"{part}.json").is_file():
            now = Tally.load(out / f"{part}.json")
            path = out / f"{part}-before.json"
            before = _cell(Tally.load(path)) if path.is_file() else "not measured"
            seed = "-" if now.seed is None else now.seed
            lines.append(f"| {part} | {what} | {before} | {_cell(now)} | {seed} | {now.seconds / 60:.1f} |")
    lines += ["", *(f"- **{kind}**: {words}." for kind, words in KINDS.items())]
    return "\n".join(lines) + "\n"


class Kept(Tally):
    """A tally that is written to its file every ten seconds, so that a part that is stopped leaves what it found."""

    def __init__(self, part: str, path: Path, seed: int) -> None:
        super().__init__(part, seed=seed)
        self.path, self.start, self.due = path, time.monotonic(), time.monotonic() + 10

    def add(self, kind: str | None, example: str = "") -> None:
        """One more attempt."""
        super().add(kind, example)
        if time.monotonic() >= self.due:
            self.keep()

    def keep(self) -> None:
        """Write all of it."""
        self.seconds, self.due = round(time.monotonic() - self.start, 1), time.monotonic() + 10
        self.save(self.path)


def _cell(tally: Tally) -> str:
    found = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.found.items()))
    return f"{found or '0'} of {tally.tried:,}"


def main() -> None:
    """Run one part, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--count", type=int, help="how many attempts; by default the part's own number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--label", default="", help="such as before")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--render", action="store_true", help="write the page from the stored results")
    wanted = parser.parse_args()
    if wanted.part:
        path = wanted.out / f"{wanted.part}{'-' if wanted.label else ''}{wanted.label}.json"
        tally = Kept(wanted.part, path, wanted.seed)
        module = importlib.import_module(f"tests.campaign.{wanted.part}")
        module.run(tally, seed=wanted.seed, **({} if wanted.count is None else {"count": wanted.count}))
        tally.keep()
        print(f"{wanted.part}: {_cell(tally)} in {tally.seconds:.0f} s")
        for kind, examples in tally.examples.items():
            print(*(f"  {kind}: {example}" for example in examples), sep="\n")
    if wanted.render:
        (wanted.out / "README.md").write_text(page(wanted.out))


if __name__ == "__main__":
    main()
