"""Plant small defects in the code that certificates rest on, and see that the tests fail.

    python -m tools.mutation --count 320 --out results/mutation

What a mutant is, `tools/mutants.py` says. It is killed if a test fails, or takes ten times the processor time that it
takes without the mutant, or sixty times its time on the clock: a machine with other work kills none by itself.
A first run of the tests finds which of them reach each statement, so that a mutant meets only those, first the ones of
its module's own file. Tests are collected once, and each mutant gets a process forked from there. Mutants are chosen
with a seed by their names, so that a change of one function leaves the choice in others as it was. A result is kept
as long as the mutant's module and the file of the test that killed it are as they were; for a survivor, all files of
tests. So a run that was stopped goes on where it was, and one after a change runs again what the change may concern.
The page, README.md, lists every survivor with the reason that `explained.json` gives for it.
"""

import argparse
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import ROOT, Mutant, file_of, forget_results, mutants, plant, target_files, watch

TESTS = (
    "tests/stats", "tests/noise", "tests/test_votes.py", "tests/test_certification.py", "tests/test_claims.py",
    "tests/test_class_counts.py", "tests/test_provenance.py", "tests/test_looks.py", "tests/test_preprocessing.py",
    "tests/test_resampling.py", "tests/test_radii.py", "tests/test_plain_words.py", "tests/sets", "tests/sampling",
    "tests/metrics", "tests/data/sets/test_shapenet.py", "tests/theorems", "tests/golden", "tests/audit",
)  # fmt: skip
STORE = "mutants.jsonl"
SECONDS = 45
"""The tests of a mutant take that long at most without it."""
MEMORY = 8 * 2**30
"""Bytes that a mutant may take, so that one that asks for all of them harms itself alone."""
Tests = dict[str, dict[str, Any]]


def run_pytest(tests: Sequence[str], plugin: object, scratch: Path) -> int:
    """The exit status of pytest; tests write to ``scratch``, which no other run of pytest clears away."""
    options = (
        "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib",
        "-o", "tmp_path_retention_policy=none", f"--basetemp={scratch}",
    )  # fmt: skip
    return int(pytest.main([*options, *tests], plugins=[plugin]))


def forked(work: Callable[[], int], log: Path) -> int:
    """The exit status of a child that does ``work`` and writes to a file what it prints."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        status = 1
        try:
            status = int(work())
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Reached:
    """A pytest plugin: which statements of the target modules each test reaches, and how long it takes."""

    def __init__(self) -> None:
        self.tests: Tests = {}
        self.lines: set[str] = set()

    def pytest_runtest_protocol(self) -> None:
        """A test begins."""
        forget_results()
        self.lines.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has ended."""
        if report.when == "call" and report.passed:
            self.tests[report.nodeid] = {"seconds": report.duration, "lines": sorted(self.lines)}


class Impatient:
    """A pytest plugin: it stops at the first test that fails or hangs, and prints which."""

    def __init__(self, tests: Tests) -> None:
        self.tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only the chosen tests, in their order; a mutant may give some of them other names."""
        chosen = {test: rank for rank, test in enumerate(self.tests)}
        items[:] = sorted((each for each in items if each.nodeid in chosen), key=lambda each: chosen[each.nodeid])

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """A test begins: a timer ends the process if it computes for ever, or waits for ever."""
        print("\n", item.nodeid, flush=True)
        seconds = self.tests[item.nodeid]["seconds"]
        signal.setitimer(signal.ITIMER_PROF, 20 + 10 * seconds)  # processor time
        signal.setitimer(signal.ITIMER_REAL, 120 + 60 * seconds)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has ended."""
        if report.failed:
            print(report.longreprtext, flush=True)
            os._exit(1)


def files_of_tests() -> list[Path]:
    """The files with the tests that mutants meet."""
    found = (sorted(Path(test).glob("**/test_*.py")) or [Path(test)] for test in TESTS)
    return [path for paths in found for path in paths]


def known_tests(work: Path) -> Tests:
    """What each test reaches: found anew for the test files that have changed, or for all if the package has."""
    store = work / "reached.json"
    known = json.loads(store.read_text()) if store.is_file() else {}
    code = b"".join(path.read_bytes() for path in target_files())
    digests = {str(path): hashlib.sha256(code + path.read_bytes()).hexdigest() for path in files_of_tests()}
    changed = [path for path, digest in digests.items() if known.get(path, {}).get("digest") != digest]
    plugin = Reached()

    def trace() -> int:
        watch(plugin.lines)
        status = run_pytest(changed, plugin, work / "tmp")
        (work / "new.json").write_text(json.dumps(plugin.tests))
        return status

    if changed:
        print(f"finding what the tests of {len(changed)} files reach", flush=True)
        if forked(trace, work / "reached.log") != 0:
            raise SystemExit(f"the tests fail without any mutant: see {work / 'reached.log'}")
        tests = json.loads((work / "new.json").read_text())
        for path in changed:
            of = {test: each for test, each in tests.items() if test.partition("::")[0] == path}
            known[path] = {"digest": digests[path], "tests": of}
        store.write_text(json.dumps({path: each for path, each in known.items() if path in digests}))
    return {test: each for path in digests for test, each in known[path]["tests"].items()}


def rests_on(module: str, by: str) -> str:
    """A digest of what a result rests on: the module, and the test that killed its mutant, or all where none did."""
    tests = [Path(by.partition("::")[0])] if by else files_of_tests()
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in (file_of(module), *tests) if path.exists())
    ).hexdigest()


def is_current(result: dict[str, Any]) -> bool:
    """Whether nothing that a result rests on has changed."""
    return result.get("rests_on") == rests_on(result["module"], result["by"])


def choice(count: int, seed: int) -> list[Mutant]:
    """Mutants chosen at random, by their names."""
    every = sorted(mutants(), key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
    print(f"{len(every)} mutants in all, {count} chosen with seed {seed}", flush=True)
    return every[:count]


def chosen_tests(mutant: Mutant, tests: Tests) -> list[str]:
    """The tests that reach the mutant's statement, the quickest first, those of the module's own file before others.

    What runs at import has no test of its own: all meet it that reach its module, or are in the file of its name.
    """
    path, line = file_of(mutant.module).relative_to(ROOT), mutant.where.line
    own = f"/test_{path.stem}.py::"
    if mutant.where.runs_in:
        known = [test for test, each in tests.items() if f"{path}:{line}" in each["lines"]]
    else:
        within = {test for test, each in tests.items() if any(one.startswith(f"{path}:") for one in each["lines"])}
        known = [test for test in tests if test in within or own in test]
    known.sort(key=lambda test: (own not in test, tests[test]["seconds"]))
    seconds = accumulate(tests[test]["seconds"] for test in known)
    return [test for test, total in zip(known, seconds, strict=True) if total <= SECONDS] or known[:1]


class Run:
    """A pytest plugin: instead of the tests it collected it runs the mutants, each against its tests."""

    def __init__(self, todo: list[Mutant], tests: Tests, wanted: argparse.Namespace) -> None:
        self.todo, self.tests, self.wanted = todo, tests, wanted

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all children
        items = {item.nodeid: item for item in session.items}
        store = self.wanted.out / STORE
        results = {each["name"]: each for each in read(store)}
        quick = sorted(self.tests, key=lambda test: self.tests[test]["seconds"])[: len(self.tests) // 2]
        log = self.wanted.work / "unchanged.log"
        if self.todo and forked(lambda: self.meet(None, quick, items), log) != 0:
            raise SystemExit(f"the quicker half of the tests fails in another order, without any mutant: see {log}")
        with ThreadPoolExecutor(self.wanted.workers) as pool:
            for number, each in enumerate(pool.map(lambda mutant: self.run(mutant, items), self.todo), start=1):
                first = results.get(each["name"], each).get("first", each["killed"])
                results[each["name"]] = {**each, "first": first, "rests_on": rests_on(each["module"], each["by"])}
                store.write_text("".join(json.dumps(one) + "\n" for one in results.values()))
                verdict = "killed" if each["killed"] else "SURVIVED"
                print(f"{number}/{len(self.todo)} {verdict} {each['name']}", flush=True)
        return True

    def run(self, mutant: Mutant, items: dict[str, pytest.Item]) -> dict[str, Any]:
        """Whether a test kills the mutant, and which."""
        tests = chosen_tests(mutant, self.tests)
        log = self.wanted.work / f"{mutant.module}-{mutant.index}.log"
        killed = bool(tests) and forked(lambda: self.meet(mutant, tests, items), log) != 0
        lines = log.read_text(errors="replace").splitlines() if killed else []
        began = [line.strip() for line in lines if line.strip() in tests]
        return {
            "name": mutant.name, "module": mutant.module, "killed": killed, "tests": len(tests),
            "by": began[-1] if began else "",
        }  # fmt: skip

    def meet(self, mutant: Mutant | None, tests: list[str], items: dict[str, pytest.Item]) -> int:
        """In a child: run the tests against the mutant."""
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        plugin = Impatient({test: self.tests[test] for test in tests})
        if mutant is not None and not plant(mutant):
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            status = run_pytest(files, plugin, self.wanted.work / f"tmp-{os.getpid()}")
            return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status
        forget_results()
        chosen = [items[test] for test in tests]
        chosen[0].config.pluginmanager.register(plugin)
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return 0


def read(store: Path) -> list[dict[str, Any]]:
    """The results so far."""
    return [json.loads(line) for line in store.read_text().splitlines()] if store.is_file() else []


def page(out: Path, results: list[dict[str, Any]]) -> str:
    """The score, and every survivor with its reason."""
    explained = json.loads((out / "explained.json").read_text()) if (out / "explained.json").is_file() else {}
    survivors = [each for each in results if not each["killed"]]
    killed, first = len(results) - len(survivors), sum(each["first"] for each in results)
    lines = [
        "# Planted defects\n",
        "Written by `python -m tools.mutation` from [mutants.jsonl](mutants.jsonl). Do not edit.\n",
        f"{killed} of {len(results)} mutants of the code that certificates rest on were killed by a test: "
        f"{killed / len(results):.1%}. When they first ran it was {first}, {first / len(results):.1%}; tests were then "
        "added for survivors.\n",
        "| module | mutants | killed | at first |",
        "| --- | --- | --- | --- |",
    ]
    for module in sorted({each["module"] for each in results}):
        of = [each for each in results if each["module"] == module]
        lines.append(f"| `{module}` | {len(of)} | {sum(e['killed'] for e in of)} | {sum(e['first'] for e in of)} |")
    lines += ["\n## Survivors\n", "| mutant | why no test can or need fail |", "| --- | --- |"]
    for each in survivors:
        reason = explained.get(each["name"], "**not explained**")
        lines.append(f"| `{each['name'].replace('|', '/')}` | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Choose mutants, run the tests against each, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=320, help="how many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutation")
    parser.add_argument("--work", type=Path, default=ROOT / ".mutation", help="which tests reach what, and logs")
    parser.add_argument("--only", default="", help="only mutants whose name contains this text")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    wanted = parser.parse_args()
    os.chdir(ROOT)
    wanted.out.mkdir(parents=True, exist_ok=True)
    wanted.work.mkdir(parents=True, exist_ok=True)
    store, chosen = wanted.out / STORE, choice(wanted.count, wanted.seed)
    if not wanted.render:
        for heavy in ("scipy.stats", "torch"):
            importlib.import_module(heavy)  # once, for all children
        tests = known_tests(wanted.work)
        done = {each["name"] for each in read(store) if is_current(each)}
        todo = [each for each in chosen if each.name not in done and wanted.only in each.name]
        run_pytest(TESTS, Run(todo, tests, wanted), wanted.work / "tmp")
    names = [each.name for each in chosen]
    known = {each["name"]: each for each in read(store) if each["name"] in names and is_current(each)}
    print(f"{len(names) - len(known)} of them have no result of today's code", flush=True)
    store.write_text("".join(json.dumps(known[name]) + "\n" for name in names if name in known))
    (wanted.out / "README.md").write_text(page(wanted.out, list(known.values())))


if __name__ == "__main__":
    main()
