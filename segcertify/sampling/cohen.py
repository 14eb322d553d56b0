"""Randomized smoothing for classification: Predict and Certify [Cohen2019], [Fischer2021, Alg. 1].

A classifier is a segmenter with one component: logits (B, classes), or labels (B,).
"""

import numpy as np
import torch

from segcertify.certificate import ABSTAIN, Certificate
from segcertify.certification import indiv_class
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise
from segcertify.sampling.draws import Draws
from segcertify.sampling.inputs import Input
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.smooth import Smooth
from segcertify.stats.binomial import p_values


def predict(
    model: Segmenter, x: Input, *, noise: Noise, n: int = 1000, alpha: float = 0.001, seed: int | None = None,
    batch_size: int | None = None, device: str | torch.device | None = None, input_id: str = "",
) -> int:  # fmt: skip
    """The smoothed classifier's label at x, or ABSTAIN: Predict [Fischer2021, Alg. 1].

    The label returned differs from the smoothed arg-max with probability at
    most alpha. (How often it abstains is not bounded: the paper's text has the
    two swapped.)
    """
    n, alpha = require_integer("n", n), require_probability("alpha", alpha)
    smooth = Smooth(model, noise, seed=seed, batch_size=batch_size, device=device)
    _require_classifier(smooth, x)
    counts = smooth.counts(x, n=n, input_id=input_id, progress=False)
    label = int(counts.argmax())  # the lowest among equals
    top, second = int(counts[label]), int(np.delete(counts, label).max(initial=0))
    p = min(1.0, 2 * float(p_values(top + second, 0.5)[top]))  # BinPValue(n_A, n_A + n_B, =, 0.5)
    return label if p <= alpha else ABSTAIN


def certify(
    model: Segmenter, x: Input, *, noise: Noise, n: int = 1000, n0: int = 100, alpha: float = 0.001,
    seed: int | None = None, batch_size: int | None = None, device: str | torch.device | None = None,
    input_id: str = "", norm: str | None = None,
) -> Certificate:  # fmt: skip
    """The label and the radius within which it holds: Certify [Fischer2021, Alg. 1].

    With probability at least 1 - alpha the label, if not ABSTAIN, stays the
    smoothed arg-max within ``radius``. ``labels`` is a single number.
    """
    require_probability("alpha", alpha)
    require_integer("n0", n0)  # IndivClass needs a pilot
    smooth = Smooth(model, noise, seed=seed, batch_size=batch_size, device=device)
    noise.radius(0.5, norm, _require_classifier(smooth, x).input_shape)  # refuse a norm that this noise cannot prove
    return indiv_class(smooth.votes(x, n=n, n0=n0, input_id=input_id, progress=False), alpha=alpha, norm=norm)


def _require_classifier(smooth: Smooth, x: Input) -> Draws:
    """The draws of a model that gives an input one label."""
    draws = smooth.draws(x)
    if draws.components:
        raise InputError(
            f"a classifier gives logits (B, classes), but this model labels components of shape {draws.components}: "
            "use segcertify.certify"
        )
    return draws
