"""Metrics of noisy runs: from a model, an input and a noise to a bound on any number of a segmentation."""

from collections.abc import Sequence

import numpy as np
import torch

from segcertify.arrays import FloatArray
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.metrics.certificate import MetricCertificate
from segcertify.metrics.map_metrics import MapFunction, metric_name, metric_value
from segcertify.metrics.planning import require_bound
from segcertify.noise import Noise
from segcertify.preprocessing import Preprocessing
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import Checkpoint, State, recorded_seed
from segcertify.sampling.draws import Draws
from segcertify.sampling.inputs import Input
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.smooth import Path, Smooth
from segcertify.sampling.streams import Phase


def certify_metric(
    model: Segmenter, x: Input, metric: MapFunction, *, radius: float, sigma: float | None = None,
    noise: Noise | None = None, share: float = 0.5, n: int = 100, alpha: float = 0.001, seed: int | None = None,
    two_sided: bool | None = None, norm: str | None = None, batch_size: int | None = None,
    device: str | torch.device | None = None, input_id: str = "", checkpoint: Path | None = None,
    checkpoint_every: float = 10.0, preprocessing: Preprocessing | None = None, progress: bool | Advance | None = None,
) -> MetricCertificate:  # fmt: skip
    """Bound a metric of the segmentation: accuracy, mIoU, Dice, a volume, or any number that the label map decides.

    With probability at least 1 - alpha over the draws, under every perturbation
    within ``radius``, at least ``share`` of the noisy runs have a metric of at least
    ``bound``. It is about one noisy run of the model, not about the voted map.

    Parameters
    ----------
    metric : callable
        From a label map (read-only NumPy integers, the components' shape) to a finite number:
        ``metrics.overall_accuracy(target)``, ``metrics.miou(target)``, ``metrics.agreement(labels)``, or a function of
        your own. Choose it, radius, share and alpha before looking.
    radius : float
        In the noise's norm, or in ``norm``.
    share : float
        The share of noisy runs that must keep the bound under attack.
    two_sided : bool, optional
        Whether to bound the metric from above too. By default as the metric says: areas and volumes do.

    Notes
    -----
    An n that gives no bound is refused before sampling. The other arguments are those
    of `segcertify.Smooth` and its ``votes``. Equal seeds and input ids give the draws
    that votes count: metric and labels hold together at the sum of their alphas.

    >>> bright = lambda batch: (batch > 0.5).long()
    >>> found = certify_metric(bright, np.array([0.0, 0.4, 1.2, 1.5]), lambda labels: labels.mean(), sigma=0.25,
    ...                        radius=0.1, n=100, seed=0)
    >>> found.bound, found.metric
    (0.5, '<lambda>')
    """
    smooth = Smooth(model, noise, sigma=sigma, seed=seed, batch_size=batch_size, device=device)
    [certificate] = certify_metrics(
        smooth, x, [metric], radius=radius, share=share, n=n, alpha=alpha, two_sided=two_sided, norm=norm,
        input_id=input_id, checkpoint=checkpoint, checkpoint_every=checkpoint_every, preprocessing=preprocessing,
        progress=progress,
    )  # fmt: skip
    return certificate


def certify_metrics(
    smooth: Smooth, x: Input, metrics: Sequence[MapFunction], *, radius: float, share: float = 0.5, n: int = 100,
    alpha: float = 0.001, two_sided: bool | None = None, norm: str | None = None, input_id: str = "",
    checkpoint: Path | None = None, checkpoint_every: float = 10.0, preprocessing: Preprocessing | None = None,
    progress: bool | Advance | None = None,
) -> list[MetricCertificate]:  # fmt: skip
    """`certify_metric` for several metrics from the same draws: each holds at alpha, all together at the sum."""
    n, alpha = require_integer("n", n), require_probability("alpha", alpha)
    sided = {i: bool(getattr(m, "two_sided", False)) if two_sided is None else two_sided for i, m in enumerate(metrics)}
    described = [[metric_name(metric), str(getattr(metric, "digest", ""))] for metric in metrics]
    for both in set(sided.values()):
        require_bound(
            smooth.noise, radius, share=share, alpha=alpha, two_sided=both, n=n, norm=norm, input_shape=np.shape(x)
        )
    draws = smooth.draws(x, input_id, recorded=recorded_seed(checkpoint))
    saved = Checkpoint(checkpoint, draws, {"metrics": described, "n": n}, every=checkpoint_every)
    values = metric_values(draws, saved, metrics, n=n, progress=progress)
    return [
        MetricCertificate(
            described[i][0], values[i], radius, share, alpha, smooth.noise, norm or "", sided[i], described[i][1],
            seed=draws.seed,
            input_id=draws.input_id, seed_given=draws.seed_given, input_shape=draws.input_shape,
            input_digest=draws.input_digest, model=smooth.identity(draws), preprocessing=preprocessing,
        )
        for i in range(len(metrics))
    ]  # fmt: skip


def metric_values(
    draws: Draws, saved: Checkpoint, metrics: Sequence[MapFunction], *, n: int, progress: bool | Advance | None = None
) -> FloatArray:
    """Each metric of n noisy runs, (metrics, n): label maps are not kept."""
    state = saved.load() or State("agree", 0, draws.batch_size, {})
    draws.batch_size = state.batch_size  # resuming keeps the batch partition
    draws.watch = recorder = MetricRecorder(metrics, n)
    if start := state.done:
        values = np.array(state.arrays.get("values", ()))
        if values.shape != (len(metrics), n) or values.dtype != np.float64 or not np.isfinite(values).all():
            raise InputError("the checkpoint holds no values of these metrics: delete it to start anew")
        recorder.note(0, values[:, :start])
    with saved.watching(), progress_bar(n, "sampling", show=progress, expected=draws.seconds * (n - start)) as advance:
        advance(start)
        for stop in draws.watched("agree", start, n, advance=advance):
            saved.save_if_due("agree", stop, {"values": torch.from_numpy(recorder.found)}, last=stop == n)
    return recorder.found


class MetricRecorder:
    """Keeps each metric of the n draws that votes count: `segcertify.Smooth.votes` takes it as ``watch``.

    Where workers make the draws, the metrics travel to them. ``first`` is the index of the first draw that is kept.
    """

    def __init__(self, metrics: Sequence[MapFunction], n: int, *, first: int = 0) -> None:
        self.metrics, self._first = tuple(metrics), first
        self.found, self._done = np.zeros((len(self.metrics), n)), np.zeros(n, bool)

    def __call__(self, phase: Phase, start: int, labels: torch.Tensor) -> None:
        """Note the metrics of a batch, if it is one of the n draws."""
        if phase == "agree":
            self.note(start, values_of(self.metrics, labels))

    def note(self, start: int, values: FloatArray) -> None:
        """Keep the metrics of draws from ``start`` on, (metrics, B)."""
        kept = slice(start - self._first, start - self._first + values.shape[1])
        self.found[:, kept], self._done[kept] = values, True

    def values(self, draws: Draws) -> FloatArray:
        """Each metric of all n draws: (metrics, n). Draws that a resumed run had counted before are made again."""
        missing = int(np.argmax(self._done)) if self._done.any() else len(self._done)
        draws.watch = self
        for _ in draws.watched("agree", 0, missing):
            pass
        return self.found


def values_of(metrics: Sequence[MapFunction], labels: torch.Tensor) -> FloatArray:
    """Each metric of each label map of a batch: (metrics, B).

    Raises `InputError` if a metric gives one map two values: it must depend on nothing but the map.
    """
    maps = labels.to(torch.int32).cpu().numpy()
    maps.flags.writeable = False  # a metric must not change what the next one sees
    values = np.array([[metric_value(metric, each) for each in maps] for metric in metrics])
    for metric, row in zip(metrics, values, strict=True):
        if (again := metric_value(metric, maps[0])) != row[0]:
            raise InputError(
                f"the metric {metric_name(metric)} gave one label map the values {row[0]} and {again}: "
                "it must depend on the map alone"
            )
    return values
