"""Certifying 1024 x 2048 components: segcertify against a binomtest per component and statsmodels' Holm.

    python benchmarks/stats.py [--json results.json]

Both do the same job in the same run: p-values, Holm, labels. The per-component
loop is timed on a part of the components and extrapolated linearly (it says so);
statsmodels' Holm runs in full. Both must certify the same components.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

import segcertify as sc
from segcertify.stats.binomial import p_values

SHAPE, N_DRAWS, TAU, ALPHA, PART, REPEATS = (1024, 2048), 100, 0.75, 0.001, 20_000, 7


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    p = rng.choice([0.6, 0.9, 0.97, 0.999], SHAPE)
    votes = sc.Votes(rng.integers(0, 19, SHAPE), rng.binomial(N_DRAWS, p), n=N_DRAWS, n0=10, noise=sc.Gaussian(0.25))

    ours = []
    for _ in range(REPEATS):
        p_values.cache_clear()
        start = time.perf_counter()
        certificate = sc.certify_votes(votes, tau=TAU, alpha=ALPHA)
        ours.append(time.perf_counter() - start)

    agree = votes.agree.ravel()
    start = time.perf_counter()
    part = [binomtest(int(k), N_DRAWS, TAU, alternative="greater").pvalue for k in agree[:PART]]
    loop = (time.perf_counter() - start) * agree.size / PART
    table = np.array([binomtest(k, N_DRAWS, TAU, alternative="greater").pvalue for k in range(N_DRAWS + 1)])
    assert np.array_equal(table[agree[:PART]], part)
    start = time.perf_counter()
    reject = multipletests(table[agree], ALPHA, method="holm")[0]
    holm = time.perf_counter() - start
    assert np.array_equal(reject, ~certificate.abstained.ravel())

    median = float(np.median(ours))
    numbers = {
        "components": agree.size,
        "n": N_DRAWS,
        "segcertify_seconds_median": median,
        "segcertify_seconds_all": ours,
        "binomtest_loop_seconds_extrapolated": loop,
        "binomtest_components_timed": PART,
        "statsmodels_holm_seconds": holm,
        "ratio": (loop + holm) / median,
        "certified": certificate.certified,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "version": sc.__version__,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")
    print(f"{agree.size:,} components, n = {N_DRAWS}: the same {certificate.certified:,} certified by both")
    print(f"segcertify                   {median * 1e3:10.1f} ms (median of {REPEATS}, p-value table included)")
    print(f"binomtest per component      {loop:10.1f} s  (extrapolated from {PART:,} components)")
    print(f"statsmodels Holm             {holm:10.2f} s")
    print(f"ratio                        {numbers['ratio']:10.0f} times faster")


if __name__ == "__main__":
    main()
