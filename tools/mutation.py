"""Plant small defects in the code that certificates rest on, and see that the tests fail.

    python tools/mutation.py --count 320 --out results/mutation

Each mutant changes one thing in one module: a comparison, an operator, a number, a condition, a statement left out.
It is killed if a test fails. A first run of the tests finds which of them call each function, so that a mutant
meets only those, first the ones of its module's own file, for a minute at most. Mutants are chosen with a seed by
their names, so that a change of one function leaves the choice in others as it was. A run that was stopped goes on
where it was.
The page, README.md, lists every survivor with the reason that `explained.json` gives for it.
"""

import argparse
import ast
import copy
import hashlib
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from itertools import accumulate
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("stats/*", "noise/*", "votes", "certificate", "certification", "sampling/*", "metrics/*")
TESTS = (
    "tests/stats", "tests/noise", "tests/test_votes.py", "tests/test_certification.py",
    "tests/sampling", "tests/metrics", "tests/theorems", "tests/golden", "tests/audit",
)  # fmt: skip
STORE = "mutants.jsonl"
SECONDS, PATIENCE = 45, 8
"""The tests of a mutant take that long at most without it; one that takes so many times longer hangs, and is killed."""
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: node ``index`` of a module's tree, in walking order."""

    module: str
    index: int
    function: str
    statement: str
    before: str
    after: str
    nth: int = 1
    """Which of the equal changes in equal statements of the function."""

    @property
    def name(self) -> str:
        """The change in words, without line numbers, which move."""
        where = f"{self.module}.{self.function}".rstrip(".")
        text = f"{where}: {self.before}  ->  {self.after}  in  {self.statement}"[:200]
        return text if self.nth == 1 else f"{text} ({self.nth})"


def mutate(node: ast.AST) -> ast.AST | None:
    """The node with a defect, or None if it has nothing to change."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in SWAPS:
        changed.ops[0] = SWAPS[type(changed.ops[0])]()
    elif isinstance(changed, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(changed.op) in SWAPS:
        changed.op = SWAPS[type(changed.op)]()
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub):
        return changed.operand
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        changed.value = not changed.value
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, int | float):
        changed.value = changed.value + 1 if isinstance(changed.value, int) else changed.value * 1.5 + 1e-9
    elif isinstance(changed, ast.If | ast.IfExp | ast.While):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
    elif isinstance(changed, ast.Raise) or (isinstance(changed, ast.Expr) and isinstance(changed.value, ast.Call)):
        return ast.Pass()
    else:
        return None
    return changed


@dataclass(frozen=True)
class Place:
    """Where a node stands in its tree, in which function and statement."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    function: str
    statement: str


def places(tree: ast.AST, function: str = "", statement: str = "") -> Iterator[Place]:
    """All that runs: no annotations, and no numbers in messages."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns") or isinstance(tree, ast.JoinedStr):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST):
                within = node.name if isinstance(node, ast.FunctionDef) else function
                text = ast.unparse(node).split("\n")[0] if isinstance(node, ast.stmt) else statement
                yield Place(tree, field, index, node, within, text)
                yield from places(node, within, text)


def planted(source: str, index: int) -> ast.Module:
    """The module with the mutant of that index."""
    tree = ast.parse(source)
    place = next(each for j, each in enumerate(places(tree)) if j == index)
    changed = ast.copy_location(mutate(place.node) or place.node, place.node)
    if place.index is None:
        setattr(place.parent, place.field, changed)
    else:
        getattr(place.parent, place.field)[place.index] = changed
    return ast.fix_missing_locations(tree)


def mutants() -> list[Mutant]:
    """All mutants of the target modules."""
    found: list[Mutant] = []
    same: Counter[str] = Counter()
    for target in TARGETS:
        for path in sorted((ROOT / "segcertify").glob(f"{target}.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for index, place in enumerate(places(ast.parse(path.read_text()))):
                changed = mutate(place.node)
                if changed is not None:
                    before, after = (ast.unparse(each).split("\n")[0] for each in (place.node, changed))
                    mutant = Mutant(module, index, place.function, place.statement, before, after)
                    same[mutant.name] += 1
                    found.append(replace(mutant, nth=same[mutant.name]))
    return found


def file_of(module: str) -> Path:
    """A module's file, or a package's."""
    folder = ROOT / module.replace(".", "/")
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


class Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """The mutant's own file, read by this loader."""
        if name != self.mutant.module:
            return None
        inside = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self.path, loader=self, submodule_search_locations=inside)

    @property
    def path(self) -> Path:
        """The module's file."""
        return file_of(self.mutant.module)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(compile(planted(self.path.read_text(), self.mutant.index), str(self.path), "exec"), module.__dict__)


def pytest_in_a_fork(arguments: list[str], *, log: Path, mutant: Mutant | None = None, plugin: object = None) -> int:
    """The exit status of pytest in a child, which has torch already; the child imports the mutant."""
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        import pytest

        if mutant is not None:
            sys.meta_path.insert(0, Planted(mutant))
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib"]
        os._exit(int(pytest.main([*options, *arguments], plugins=[plugin] if plugin else [])))
    end = time.monotonic() + (SECONDS * PATIENCE if mutant else 3600)
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


class Reached:
    """A pytest plugin: which functions of the target modules each test calls, and how long it takes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, Any] = {}
        self.called: set[tuple[str, str]] = set()
        self.files = {str(p): str(p.relative_to(ROOT)) for t in TARGETS for p in (ROOT / "segcertify").glob(f"{t}.py")}

    def pytest_configure(self) -> None:
        """Begin to watch."""
        sys.settrace(self.trace)  # in the child alone

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call; returning None leaves the lines of the function alone."""
        name = self.files.get(frame.f_code.co_filename)
        if name is not None:
            self.called.add((name, frame.f_code.co_name))

    def pytest_runtest_protocol(self, item: object, nextitem: object) -> None:
        """A test begins."""
        self.called = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has ended."""
        if report.when == "call" and report.passed:
            self.tests[report.nodeid] = {"seconds": report.duration, "called": sorted(self.called)}

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the map, unless a test failed."""
        if exitstatus == 0:
            self.path.write_text(json.dumps(self.tests))


def tests_of(mutant: Mutant, reached: dict[str, Any]) -> list[str]:
    """The tests that call the mutant's function (of a module's own statements: any in it), the quickest first."""
    path = str(file_of(mutant.module).relative_to(ROOT))
    calls = {test: {name for file, name in each["called"] if file == path} for test, each in reached.items()}
    known = [test for test, names in calls.items() if mutant.function in names or (names and not mutant.function)]
    known = known or [test for test, names in calls.items() if names]
    known.sort(key=lambda test: reached[test]["seconds"])
    seconds = accumulate(reached[test]["seconds"] for test in known)
    return [test for test, total in zip(known, seconds, strict=True) if total <= SECONDS] or known[:1]


def page(out: Path, results: list[dict[str, Any]]) -> str:
    """The score, and every survivor with its reason."""
    explained = json.loads((out / "explained.json").read_text()) if (out / "explained.json").is_file() else {}
    survivors = [each for each in results if not each["killed"]]
    killed = len(results) - len(survivors)
    lines = [
        "# Planted defects\n",
        "Written by `python tools/mutation.py` from [mutants.jsonl](mutants.jsonl). Do not edit.\n",
        f"{killed} of {len(results)} mutants of the code that certificates rest on were killed by a test: "
        f"{killed / len(results):.1%}.\n",
        "| module | mutants | killed |",
        "| --- | --- | --- |",
    ]
    for module in sorted({each["module"] for each in results}):
        of = [each for each in results if each["module"] == module]
        lines.append(f"| `{module}` | {len(of)} | {sum(each['killed'] for each in of)} |")
    lines += ["\n## Survivors\n", "| mutant | why no test can or need fail |", "| --- | --- |"]
    for each in survivors:
        reason = explained.get(each["name"], "**not explained**")
        lines.append(f"| `{each['name'].replace('|', '/')}` | {reason} |")
    return "\n".join(lines) + "\n"


def run_all(chosen: list[Mutant], results: list[dict[str, Any]], wanted: argparse.Namespace) -> None:
    """Run the mutants that have no result yet, and store each result as it comes."""
    reached = json.loads((wanted.work / "reached.json").read_text())
    done = {each["name"] for each in results}
    todo = [each for each in chosen if each.name not in done]

    def run(mutant: Mutant) -> dict[str, Any]:
        tests = tests_of(mutant, reached)
        log = wanted.work / f"{mutant.module}-{mutant.index}.log"
        own = [test for test in tests if f"test_{mutant.module.rpartition('.')[2]}.py" in test]
        parts = [own, [test for test in tests if test not in own]]  # to collect few files is quick, and mostly enough
        killed = any(pytest_in_a_fork(part, log=log, mutant=mutant) != 0 for part in parts if part)
        return {"name": mutant.name, "module": mutant.module, "killed": killed, "tests": len(tests)}

    with ThreadPoolExecutor(wanted.workers) as pool:
        for number, each in enumerate(pool.map(run, todo), start=1):
            results.append(each)
            (wanted.out / STORE).write_text("".join(json.dumps(one) + "\n" for one in results))
            print(f"{number}/{len(todo)} {'killed' if each['killed'] else 'SURVIVED'} {each['name']}", flush=True)


def main() -> None:
    """Choose mutants, run the tests against each, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=320, help="how many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutation")
    parser.add_argument("--work", type=Path, default=ROOT / ".mutation", help="which tests call what, and logs")
    parser.add_argument("--again", action="store_true", help="run survivors again, after tests were added")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    wanted = parser.parse_args()
    os.chdir(ROOT)
    wanted.out.mkdir(parents=True, exist_ok=True)
    wanted.work.mkdir(parents=True, exist_ok=True)
    store, tested = wanted.out / STORE, wanted.work / "reached.json"
    results = [json.loads(line) for line in store.read_text().splitlines()] if store.is_file() else []
    if not wanted.render:
        for heavy in ("scipy.stats", "torch"):
            importlib.import_module(heavy)  # once, for all children
        results = [each for each in results if each["killed"] or not wanted.again]
        known = tested.is_file() and not wanted.again
        log = wanted.work / "reached.log"
        if not known and pytest_in_a_fork(list(TESTS), log=log, plugin=Reached(tested)) != 0:
            raise SystemExit(f"the tests fail without any mutant: see {log}")
        chosen = mutants()
        print(f"{len(chosen)} mutants in all, {wanted.count} chosen with seed {wanted.seed}")
        chosen = sorted(chosen, key=lambda mutant: hashlib.sha256(f"{wanted.seed} {mutant.name}".encode()).digest())
        run_all(chosen[: wanted.count], results, wanted)
    (wanted.out / "README.md").write_text(page(wanted.out, results))


if __name__ == "__main__":
    main()
