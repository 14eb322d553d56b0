"""JointClass, the paper's baseline that needs the model [Fischer2021, section 4].

IndivClass needs votes only: `segcertify.certification.indiv_class`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import torch

from segcertify.arrays import BoolArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.certification import indiv_class
from segcertify.errors import require_integer, require_probability
from segcertify.noise import Noise
from segcertify.progress import progress_bar
from segcertify.sampling.draws import Draws, Input
from segcertify.sampling.sampler import Sampler
from segcertify.sampling.segmenter import Segmenter


def joint_class(
    model: Segmenter,
    x: Input,
    *,
    noise: Noise,
    n: int = 100,
    n0: int = 10,
    alpha: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    input_id: str = "",
    mask: BoolArray | None = None,
    norm: str | None = None,
    progress: bool | None = None,
) -> Certificate:
    """Certify the whole label map as one class: Alg. 1 on the Cartesian product of all components' classes.

    With probability at least 1 - alpha the whole map is the most likely one
    within ``radius``. One component that fluctuates makes all abstain.
    """
    alpha = require_probability("alpha", alpha)
    n, n0 = require_integer("n", n), require_integer("n0", n0)
    draws = Draws(model, x, noise=noise, seed=seed, batch_size=batch_size, device=device, input_id=input_id)
    sampler = Sampler(draws, mask)
    noise.radius(0.5, norm, draws.input_shape)  # refuse a norm that this noise cannot prove
    with progress_bar(n0 + n, "JointClass", show=progress) as advance:
        draw = _modal_draw(sampler, n0)
        _, candidate = next(draws.batches("candidate", draw, draw + 1))  # draws are addressed: draw it again
        advance(n0)
        agree = 0
        for _, labels in draws.batches("agree", 0, n):
            agree += int((sampler.tested(labels) == sampler.tested(candidate)).all(1).sum())
            advance(len(labels))
    votes = draws.record(np.array(0), np.array(agree), n=n, n0=n0)  # one component: the whole map
    whole = indiv_class(votes, alpha=alpha, norm=norm)
    certified = np.full(draws.components, not whole.abstained)
    if sampler.mask is not None:
        certified &= sampler.mask
    labels_map = candidate[0].cpu().numpy().astype(np.int32)
    return replace(whole, labels=np.where(certified, labels_map, ABSTAIN), N=sampler.N)


def _modal_draw(sampler: Sampler, n0: int) -> int:
    """The first of n0 draws that shows the most frequent label map; maps are compared by digest."""
    digests = [
        hashlib.sha256(row.cpu().numpy().tobytes()).digest()
        for _, labels in sampler.draws.batches("candidate", 0, n0)
        for row in sampler.tested(labels)
    ]
    return digests.index(Counter(digests).most_common(1)[0][0])  # among equals the first seen
