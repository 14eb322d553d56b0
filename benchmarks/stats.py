"""Certifying 1024 x 2048 components: segcertify, a binomtest per component, and vectorised SciPy; statsmodels' Holm.

    python benchmarks/stats.py [--json results/speed/stats.json]

All do the same job in the same run: p-values, Holm, labels, from the same counts. The loop over components is timed on
a part of them and extrapolated linearly (it says so); all else runs in full. All must certify the same components. The
processor's time is measured, of all threads together, so that other processes change little; ours has up to four.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binom, binomtest

import segcertify as sc
from segcertify.bench.binomial_tests import holm
from segcertify.bench.machine import machine, versions
from segcertify.stats.binomial import p_values

SHAPE, N_DRAWS, TAU, ALPHA, PART, REPEATS = (1024, 2048), 100, 0.75, 0.001, 20_000, 7


def counts() -> sc.Votes:
    """Votes of a frame, made up: some components are sure of their label, some waver."""
    rng = np.random.default_rng(0)
    agree = rng.binomial(N_DRAWS, rng.choice([0.6, 0.9, 0.97, 0.999], SHAPE))
    return sc.Votes(rng.integers(0, 19, SHAPE), agree, n=N_DRAWS, n0=10, noise=sc.Gaussian(0.25))


def main() -> None:
    """Time all three and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    votes, ours, vectorised = counts(), [], []
    agree = votes.agree.ravel()
    for _ in range(REPEATS):
        p_values.cache_clear()
        start = time.process_time()
        certificate = sc.certify_votes(votes, tau=TAU, alpha=ALPHA)
        ours.append(time.process_time() - start)

    procedure, whose = holm()
    start = time.process_time()
    part = [binomtest(int(k), N_DRAWS, TAU, alternative="greater").pvalue for k in agree[:PART]]
    loop = (time.process_time() - start) * agree.size / PART
    table = np.array([binomtest(k, N_DRAWS, TAU, alternative="greater").pvalue for k in range(N_DRAWS + 1)])
    assert np.array_equal(table[agree[:PART]], part)
    start = time.process_time()
    rejected = procedure(table[agree], ALPHA)
    correction = time.process_time() - start
    assert np.array_equal(rejected, ~certificate.abstained.ravel())
    for _ in range(3):
        start = time.process_time()
        some, where = np.unique(agree, return_inverse=True)
        rejected = procedure(binom.sf(some - 1, N_DRAWS, TAU)[where], ALPHA)
        vectorised.append(time.process_time() - start)
    assert np.array_equal(rejected, ~certificate.abstained.ravel())

    median, fair = float(np.median(ours)), float(np.median(vectorised))
    values = {
        "machine": machine(torch.device("cpu")),
        "versions": versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {"components": agree.size, "n": N_DRAWS, "tau": TAU, "alpha": ALPHA},
        "certified": certificate.certified,
        "segcertify_seconds": median,
        "segcertify_seconds_all": ours,
        "loop_seconds_extrapolated": loop,
        "loop_components_timed": PART,
        "holm_seconds": correction,
        "holm_by": whose,
        "vectorised_seconds": fair,
        "vectorised_seconds_all": vectorised,
        "ratio_to_loop": (loop + correction) / median,
        "ratio_to_vectorised": fair / median,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(values, indent=2) + "\n")
    print(f"{agree.size:,} components, n = {N_DRAWS}: the same {certificate.certified:,} certified by all")
    print(f"segcertify                         {median * 1e3:10.1f} ms (median of {REPEATS}, p-value table included)")
    print(f"vectorised SciPy, Holm             {fair * 1e3:10.1f} ms, {values['ratio_to_vectorised']:.0f} times ours")
    print(f"binomtest per component, Holm      {loop + correction:10.1f} s  (extrapolated from {PART:,} components)")
    print(f"                                   {values['ratio_to_loop']:10.0f} times ours")


if __name__ == "__main__":
    main()
