"""The toy experiments: the simulation against slow references, the files, and what the paper says of the curves."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import SFC64, Generator, SeedSequence

from segcertify.errors import InputError
from segcertify.reproduce import toy
from segcertify.reproduce.toy_simulation import (
    BUDGETS,
    METHODS,
    Settings,
    error_rates,
    histograms,
    joint_votes,
    oracle_votes,
    rates_at_gamma,
    rates_at_N,
)
from segcertify.stats.correction import procedure

TINY = Settings(gammas=(0.0, 0.05, 0.1), draws=(100,), Ns=(10, 50), repetitions=3)


def labels(right: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.where(right, truth, 1 - truth)


def draw(seed: int, n: int, N: int, *, error: float) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.random((n, N)) >= error, generator.random((n + 1, N)) >= error


cases = given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 12),
    N=st.integers(1, 20),
    error=st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]),
)


@cases
@settings(max_examples=60, deadline=None)
def test_joint_class_finds_the_most_frequent_label_map(seed: int, n: int, N: int, error: float) -> None:
    first, second = draw(seed, n, N, error=error)
    truth = np.random.default_rng(seed + 1).integers(2, size=N)
    maps = [tuple(row) for row in labels(first, truth)]
    often = max(maps.count(one) for one in maps)
    candidate = next(one for one in maps if maps.count(one) == often)
    votes = joint_votes(first, second)
    assert votes.agree == sum(tuple(row) == candidate for row in labels(second, truth))
    assert (votes.N, votes.n0, votes.n) == (1, n, n + 1)


@cases
@settings(max_examples=60, deadline=None)
def test_votes_count_labels(seed: int, n: int, N: int, error: float) -> None:
    first, second = draw(seed, n, N, error=error)
    truth = np.random.default_rng(seed + 1).integers(2, size=N)
    votes = oracle_votes(first, second, truth=truth)
    for i in range(N):
        counts = np.bincount(labels(first, truth)[:, i], minlength=2)
        assert votes.candidate[i] == counts.argmax()  # ties: lowest label
        assert votes.agree[i] == (labels(second, truth)[:, i] == votes.candidate[i]).sum()


def test_error_rates_are_clamped() -> None:
    assert error_rates(0.3, 3, k=1).tolist() == [0.3, 0.3, 1.0]
    assert error_rates(0.01, 4, k=2).tolist() == [0.01, 0.01, 0.05, 0.05]


def test_histograms_hold_all_components() -> None:
    rows = histograms(1000, 0.05, k=1, n=50, repetitions=4, generator=Generator(SFC64(0)))
    assert rows.shape == (4, 51)
    assert (rows.sum(axis=1) == 1000).all()


def test_holm_is_never_below_bonferroni_with_few_draws() -> None:
    for seed, gamma in enumerate((0.03, 0.06, 0.09)):
        rates = rates_at_gamma(gamma, 100, settings=Settings(repetitions=20), seed=SeedSequence(seed))
        assert rates["SegCertifyHolm"] >= rates["SegCertifyBon"]
        assert list(rates) == list(METHODS)


def test_a_larger_budget_certifies_at_least_as_much() -> None:
    sizes = Settings(repetitions=10)
    rates = rates_at_N(5000, sizes, seed=SeedSequence(0))
    for name in ("text", "code"):
        for alpha in ("0.1", "0.001"):
            ordered = [rates[f"{name} {alpha} {budget}"] for budget in BUDGETS]
            assert ordered == sorted(ordered)
    assert rates["code 0.1 b = 0"] == rates["code SegCertifyHolm"]  # k-FWER without a budget is Holm
    assert rates["text SegCertifyHolm"] == rates["text SegCertifyBon"] == 1  # tau = 0.75 is too easy to tell them apart
    assert rates["code SegCertifyHolm"] > rates["code SegCertifyBon"] + 0.01


def test_budgets_round_down() -> None:
    assert [b(1999) for b in BUDGETS.values()] == [0, 1, 2, 4, 1, 19]
    assert all(procedure("k-fwer", b=b(10)).k <= 10 for b in BUDGETS.values())


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    alone = toy.simulate(TINY, 3)
    assert toy.simulate(TINY, 3, processes=2) == alone
    assert toy.simulate(TINY, 4) != alone


def test_a_failure_drops_the_jobs_not_yet_started() -> None:
    jobs = [partial(int, "no number"), *(partial(time.sleep, 0.1) for _ in range(400))]  # 20 s if all were run
    start = time.monotonic()
    with pytest.raises(ValueError, match="no number"):
        toy._results(jobs, 2, lambda step: None)
    assert time.monotonic() - start < 15


NAMES = ("gamma-n100", "gamma-n1000", "components", "budget-alpha0.1", "budget-alpha0.001")


def test_quick_run(tmp_path: Path) -> None:  # one test: several would share the run, but not among pytest's workers
    out = tmp_path / "new" / "folder"
    summary = toy.run(out, quick=True, seed=1, progress=False)
    expected = {f"{name}.{suffix}" for name in NAMES for suffix in ("png", "pdf", "csv")} | {"toy.json", "toy.md"}
    assert {path.name for path in summary.files} == {path.name for path in out.iterdir()} == expected
    assert all(path.stat().st_size > 100 for path in summary.files)
    record = json.loads((out / "toy.json").read_text(encoding="utf-8"))
    assert tuple(record["tables"]) == NAMES
    for name, columns in record["tables"].items():
        check_table(out / f"{name}.csv", columns)
    check_record(record, summary)


def check_table(path: Path, columns: dict[str, list[float]]) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == list(columns)
    read = zip(*([float(cell) for cell in row] for row in rows), strict=True)
    assert [list(column) for column in read] == list(columns.values())
    assert all(0 <= rate <= 1 for column in header[1:] for rate in columns[column])


def check_record(record: dict[str, Any], summary: toy.Summary) -> None:
    assert (record["seed"], record["quick"], record["settings"]["repetitions"]) == (1, True, 20)
    assert record["cases"] == {"text": {"tau": 0.75, "k": 0}, "code": {"tau": 0.9, "k": 1}}
    assert record["headline"] == summary.headline
    assert record["notes"] == list(summary.notes)
    assert record["seconds"] > 0
    for words in (
        "text and its released code differ",
        "Lehmann and Romano",
        "SegCertifyHolm at gamma=0.05",
        "quick run",
    ):
        assert words in str(summary)


def test_out_must_not_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        toy.run(path, quick=True)
    assert path.read_text() == "mine"


def test_seed_must_not_be_negative(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seed"):
        toy.run(tmp_path / "out", seed=-1)
    assert not (tmp_path / "out").exists()


def test_loads_no_torch() -> None:
    code = "import sys, segcertify.reproduce.toy; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
