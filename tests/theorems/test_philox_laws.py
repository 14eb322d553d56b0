"""The numbers from counters have the laws that the theorems are about: those of CUDA, here from the kernels' twin."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, expon, kstest, laplace, norm, uniform

from segcertify.sampling.kernels.philox import numbers
from segcertify.sampling.streams import DrawStream, key_words

pytestmark = pytest.mark.statistical

DRAWS, ENTRIES = 40, 50_000
LAWS = {"normal": norm, "laplace": laplace, "exponential": expon, "uniform": uniform}


def drawn(law, phase="agree", count=DRAWS):
    keys = key_words([DrawStream(0, "", phase, j) for j in range(count)], torch.device("cpu"))
    return numbers(torch.zeros(ENTRIES), keys, law).numpy()


@pytest.mark.parametrize("law", LAWS)
def test_laws(law):
    """Kolmogorov-Smirnov on two million numbers, and on each place in a block; false alarms 5e-6."""
    found = drawn(law)
    for part in (found, *(found[:, place::4] for place in range(4))):
        assert kstest(part.ravel(), LAWS[law].cdf).pvalue > 1e-6


def test_tails_of_normal_numbers():
    """Beyond 3, 4 and 5 sigma, on both sides, among two (at 5 sigma twenty) million; false alarms 6e-6."""
    few, many = drawn("normal"), drawn("normal", count=400)
    for sigmas, found in ((3, few), (4, few), (5, many)):
        for side in (found, -found):
            assert binomtest(int((side > sigmas).sum()), side.size, float(norm.sf(sigmas))).pvalue > 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_numbers_are_uncorrelated_and_so_are_their_sizes(law):
    """Between neighbours of every distance in a block and next to it, draws and phases; 5.9 standard errors each."""
    agree, candidate = drawn(law), drawn(law, "candidate")
    pairs = [(agree[:, :-lag].ravel(), agree[:, lag:].ravel()) for lag in (1, 2, 3, 4, 5, 8)]
    pairs += [(agree[:-1].ravel(), agree[1:].ravel()), (agree.ravel(), candidate.ravel())]
    for one, other in pairs:
        for view in (np.asarray, lambda x: np.abs(x - x.mean())):
            assert abs(np.corrcoef(view(one), view(other))[0, 1]) < 5.9 / np.sqrt(len(one))


def test_a_key_that_ignores_the_draw_is_seen():
    """The defect that the tests above are for."""
    keys = key_words([DrawStream(0, "", "agree", 0)] * 2, torch.device("cpu"))
    one, other = numbers(torch.zeros(ENTRIES), keys, "normal").numpy()
    assert np.corrcoef(one, other)[0, 1] > 0.99
