"""JointClass, the paper's baseline that needs the model [Fischer2021, section 4].

IndivClass needs votes only: `segcertify.certification.indiv_class`.
"""

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
from segcertify.sampling.inputs import Input
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.smooth import Smooth
from segcertify.votes import require_mask


def joint_class(
    model: Segmenter, x: Input, *, noise: Noise, n: int = 100, n0: int = 10, alpha: float = 0.001,
    seed: int | None = None, batch_size: int | None = None, device: str | torch.device | None = None,
    input_id: str = "", mask: BoolArray | None = None, norm: str | None = None, progress: bool | None = None,
) -> Certificate:  # fmt: skip
    """Certify the whole label map as one class: Alg. 1 on the Cartesian product of all components' classes.

    With probability at least 1 - alpha the whole map is the most likely one
    within ``radius``. One component that fluctuates makes all abstain.
    """
    alpha = require_probability("alpha", alpha)
    n, n0 = require_integer("n", n), require_integer("n0", n0)
    smooth = Smooth(model, noise, seed=seed, batch_size=batch_size, device=device)
    draws = smooth.draws(x, input_id)
    tested = np.ones(draws.components, bool) if mask is None else require_mask(mask, draws.components)
    noise.radius(0.5, norm, draws.input_shape)  # refuse a norm that this noise cannot prove
    where = torch.tensor(tested.ravel(), device=draws.x.device)
    with progress_bar(n0 + n, "JointClass", show=progress) as advance:
        digests = [
            hashlib.sha256(labels.cpu().numpy().tobytes()).digest()
            for _, batch in draws.batches("candidate", 0, n0, advance=advance)
            for labels in batch.flatten(1)[:, where]
        ]
        modal = digests.index(Counter(digests).most_common(1)[0][0])  # among equals the first seen
        _, candidate = next(draws.batches("candidate", modal, modal + 1))  # draws are addressed: draw it again
        agree = sum(
            int((batch == candidate).flatten(1)[:, where].all(1).sum())
            for _, batch in draws.batches("agree", 0, n, advance=advance)
        )
    votes = draws.record(np.array(0), np.array(agree), n=n, n0=n0)  # one component: the whole map
    votes = replace(votes, model=smooth.identity(draws))
    whole = indiv_class(votes, alpha=alpha, norm=norm)
    labels = np.where(tested & ~whole.abstained, candidate[0].cpu().numpy().astype(np.int32), ABSTAIN)
    return replace(whole, labels=labels, N=int(tested.sum()))
