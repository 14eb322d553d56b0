"""How much more the same noisy runs certify: sets, no pilot, error budgets, capped maps, looks, metrics.

    python experiments/same_draws.py --model pets --data 'pets:FOLDER?split=val' --every 10 --out results/power/pets
    python experiments/same_draws.py --model trained:FOLD.safetensors --every 4 --out results/power/camvid \\
        --data 'camvid:FOLDER?split=train+val&only=0006R0*,0001TP_007[6-9]*,0001TP_008*'

A scene takes n0 + n = 620 runs. All that the page compares is computed from these, each as if it had been drawn alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from page import Results, document, parser, remarks, render, save, start

import segcertify as sc
from segcertify.arrays import FloatArray, IntArray
from segcertify.class_counts import most_frequent
from segcertify.cli.options import chosen_device, chosen_scenes
from segcertify.data import DataSet, Scene
from segcertify.errors import InputError
from segcertify.looks import Enough, look_times
from segcertify.metrics import confusion, from_plain, mean_iou, to_plain
from segcertify.metrics.scores import abstention, worst_case_accuracy
from segcertify.metrics.sets import set_counts, set_scores, sets_from_plain, sets_to_plain
from segcertify.names import code, file_name, markdown
from segcertify.numerals import NOTHING, confidence, exact, lower, measured, radius_text
from segcertify.progress import progress_bar
from segcertify.report.table import Table
from segcertify.stats.correction import PROCEDURES
from segcertify.stats.planning import smallest_n
from segcertify.storage.atomic import write_text

SIGMA, ALPHA, N0, N = 0.25, 0.001, 10, 610
SETTINGS = ((100, 0.75), (300, 0.9), (500, 0.95))
"""(n, tau) of the paper, all from the first n of the N draws after the pilot."""
BUDGET = 1000
"""One label in so many may be wrong where a budget is allowed."""
SHARE, LOOKS = 0.5, 4
METRIC_RADII = ((110, 0.75), (110, 0.9), (310, 0.95))
"""(n, tau) of metric certificates: their radius is that of tau."""
METRICS = {"accuracy": sc.metrics.overall_accuracy, "mIoU": sc.metrics.miou}


class Runs:
    """Counts all classes at several numbers of draws, and notes metrics: `Smooth.votes` takes it as ``watch``."""

    def __init__(self, scene: Scene, classes: int, at: Sequence[int]) -> None:
        self.total = np.zeros((classes, *scene.target.shape), np.int32)
        self.pilot, self.counts, self.at = self.total.copy(), dict[int, IntArray](), set(at)
        self.metrics = [make(scene.labels) for make in METRICS.values()]
        self.values: list[list[float]] = []

    def __call__(self, phase: str, first: int, labels: torch.Tensor) -> None:
        """Add a batch of label maps."""
        for index, each in enumerate(labels.cpu().numpy(), first):
            counted = self.pilot if phase == "candidate" else self.total
            for label in range(len(counted)):
                counted[label] += each == label
            self.values.append([metric(each) for metric in self.metrics])
            if phase == "agree" and index + 1 in self.at:
                self.counts[index + 1] = self.total.copy()


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample the scenes and write the page, or only write the page."""
    command = parser(__doc__, "results/power/NAME")
    command.add_argument("--model", default="pets", help="the spec of the model")
    command.add_argument("--every", type=int, default=1, help="take every k-th scene")
    command.add_argument("--limit", type=int, help="take at most this many scenes")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
    elif not options.data or not options.out:
        raise InputError("name scenes and a folder, such as --data 'pets:FOLDER?split=val' --out results/power/pets")
    else:
        data = chosen_scenes(options.data, every=options.every, limit=options.limit)
        save(
            options.out,
            run(data, options.model, options.out, seed=options.seed, device=chosen_device(options.device)),
            page,
        )


def run(data: DataSet, spec: str, out: Path, *, seed: int, device: str) -> dict[str, Any]:
    """The results, from a file a scene in ``out/scenes``: the same call again resumes."""
    smooth = sc.Smooth(sc.models.load(spec), sigma=SIGMA, seed=seed, device=device)
    about = {"model": spec.rpartition("/")[2], "data": data.name, "classes": list(data.classes), "seed": seed}
    scenes, folder = [], out / "scenes"
    folder.mkdir(parents=True, exist_ok=True)
    with progress_bar(len(data), "scenes") as advance:
        for index, name in enumerate(data.ids):
            path = folder / f"{file_name(name)}.json"
            if not path.exists():
                write_text(path, json.dumps({"about": about, **of_scene(smooth, data[index], len(data.classes))}))
            scene = json.loads(path.read_text())
            if scene.pop("about") != about:
                raise InputError(f"{path} is of another run: give another --out, or delete it")
            scenes.append(scene)
            advance(1)
    return about | {"scenes": scenes, "device": device.partition(":")[0], "version": sc.__version__}


def of_scene(smooth: sc.Smooth, scene: Scene, classes: int) -> dict[str, Any]:
    """All that the page needs to know of one scene, in counts that add up."""
    times = look_times(N, LOOKS, least=smallest_n(scene.target.size, 0.75, ALPHA / LOOKS, PROCEDURES["holm"]))
    at = [n for n, _ in SETTINGS]
    runs = Runs(scene, classes, at)
    votes = smooth.votes(scene.x, n=N, n0=N0, input_id=scene.id, prefixes=(*at, *times), watch=runs, progress=False)
    result: dict[str, Any] = {"id": scene.id, "valid": int(scene.valid.sum()), "budget": votes.N // BUDGET}
    for n, tau in SETTINGS:
        found = replace(votes.at(n), counts=runs.counts[n], pilot_counts=runs.pilot, classes=classes, earlier={})
        result[str(n)] = of_setting(found, runs.pilot, scene, tau=tau, budget=result["budget"])
    result["looks"] = of_looks(votes, times, scene, classes)
    values = np.array(runs.values).T  # (metrics, n0 + n)
    result["metrics"] = [
        [metric_bound(name, values[i, :n], tau) for n, tau in METRIC_RADII] for i, name in enumerate(METRICS)
    ]
    return result


def of_setting(votes: sc.Votes, pilot: IntArray, scene: Scene, *, tau: float, budget: int) -> dict[str, Any]:
    """What n draws after the pilot certify, and the same n0 + n draws without one."""
    together, classes = pilot + votes.counts, len(pilot)
    candidate, agree = most_frequent(together)
    no_pilot = sc.Votes(
        candidate, agree, n=votes.n0 + votes.n, n0=0, noise=votes.noise, counts=together, classes=classes
    )
    right = scene.valid & (votes.candidate == scene.target)
    reached = votes.noise.radius(tau) * (1 - 1e-9)

    def labels(found: sc.Votes, **settings: Any) -> dict[str, Any]:
        return scored(sc.certify_votes(found, tau=tau, alpha=ALPHA, **settings), scene, classes)

    def sets(found: sc.Votes) -> dict[str, Any]:
        certificate = sc.certify_sets(found, tau=tau, alpha=ALPHA)
        return sets_to_plain(set_counts(certificate, scene.target, scene.valid, classes=classes))

    return {
        "labels": labels(votes), "budget": labels(votes, correction="k-fwer", b=budget), "no pilot": labels(no_pilot),
        "sets": sets(votes), "sets, no pilot": sets(no_pilot),
        "map": int((right & (sc.radius_map(votes, alpha=ALPHA) >= reached)).sum()),
        "capped map": int((right & (sc.radius_map(votes, alpha=ALPHA, cap=tau) >= reached)).sum()),
    }  # fmt: skip


def scored(certificate: sc.Certificate, scene: Scene, classes: int) -> dict[str, Any]:
    """The confusion matrix of certified labels, in plain values."""
    return to_plain(confusion(certificate.labels, scene.target, scene.valid, classes=classes))


def of_looks(votes: sc.Votes, times: tuple[int, ...], scene: Scene, classes: int) -> dict[str, Any]:
    """One test of all draws at tau = 0.75, and looks that stop where nothing more can be gained, or 90 % is there."""
    one = scored(sc.certify_votes(votes, tau=0.75, alpha=ALPHA), scene, classes)
    found: dict[str, Any] = {"one test": {"draws": votes.n, "matrix": one}}
    for name, share in (("looks", 1.0), ("looks, until 90 %", 0.9)):
        enough = Enough(tau=0.75, alpha=ALPHA, share=share)
        for time in times:
            here = votes if time == votes.n else votes.at(time)
            here = replace(here, earlier={m: a for m, a in here.earlier.items() if m in times}, looks=times)
            if time == times[-1] or enough(here):
                break
        found[name] = {"draws": here.n, "matrix": scored(sc.certify_votes(here, tau=0.75, alpha=ALPHA), scene, classes)}
    return found


def metric_bound(name: str, values: FloatArray, tau: float) -> float | None:
    """The bound that most noisy runs keep within the radius of tau."""
    noise = sc.Gaussian(SIGMA)
    return sc.MetricCertificate(name, values, noise.radius(tau), SHARE, ALPHA, noise).bound


def page(results: Results, folder: Path) -> str:
    """The page: a table of labels and sets, one of looks, one of metrics."""
    made = f"segcertify {results['version']}, {results['device']}, seed {results['seed']}"
    scenes = results["scenes"]
    claim = (
        f"{len(scenes)} scenes of {markdown(results['data'])}, {code(results['model'])}, sigma = {exact(SIGMA)}, "
        f"alpha = {exact(ALPHA)} for each scene: what a row says of all scenes together holds with probability at "
        f"least {confidence(ALPHA, len(scenes))}. Each row is a claim of its own. Bounds are rounded down. "
        f"{remarks(results)}"
    )
    return document(
        "same_draws", f"More certified by the same draws: {markdown(results['data'])}", made, claim,
        labels_table(scenes), sets_table(scenes), looks_table(scenes), metrics_table(scenes),
    )  # fmt: skip


def _matrices(scenes: Sequence[Results], n: int, kind: str) -> list[Any]:
    return [from_plain(each[str(n)][kind]) for each in scenes]


def labels_table(scenes: Sequence[Results]) -> Table:
    """Certified labels by the paper's way, without a pilot, and with a budget; radius maps with and without a cap."""
    valid, allowed = sum(each["valid"] for each in scenes), sum(each["budget"] for each in scenes)
    rows = []
    for n, tau in SETTINGS:
        R = radius_text(sc.Gaussian(SIGMA).radius(tau), 3)
        for kind, name in (
            ("labels", "pilot, Holm"),
            ("no pilot", "no pilot (D1)"),
            ("budget", "budget of errors (D2)"),
        ):
            matrices, b = _matrices(scenes, n, kind), allowed if kind == "budget" else 0
            total = sum(matrices)
            scores = lower(worst_case_accuracy(total, b=b)), lower(mean_iou(matrices, "worst_case", b=b))
            rows.append((f"{N0 + n}", exact(tau), R, name, *scores, measured(abstention(total))))
        for kind, name in (("map", "radius map"), ("capped map", "capped radius map (D3)")):
            share = sum(each[str(n)][kind] for each in scenes) / valid
            rows.append((f"{N0 + n}", exact(tau), R, name, lower(share), NOTHING, NOTHING))
    heads = ("runs", "tau", "R", "labels", "certified accuracy", "worst-case mIoU (arg-max)", "abstained (valid)")
    notes = (
        "Of maps the accuracy counts right labels whose radius is at least R.",
        f"A budget allows one of {BUDGET:,} labels of a scene to be wrong, {allowed:,} in all, which the bounds "
        "subtract. Single labels are then no certificates.",
    )
    return Table("Labels", heads, tuple(rows), notes)


def sets_table(scenes: Sequence[Results]) -> Table:
    """Sets beside labels: every score, and how the worst-case mIoU compares."""
    rows = []
    for n, tau in SETTINGS:
        today = mean_iou(_matrices(scenes, n, "labels"), "worst_case")
        for kind in ("sets", "sets, no pilot"):
            found = [sets_from_plain(each[str(n)][kind]) for each in scenes]
            total = found[0]
            for each in found[1:]:
                total = total + each
            s = set_scores(total)
            shares = (s.certified, s.at_most_1, s.at_most_2, s.at_most_3, s.truth_in_set, s.information_gain)
            times = measured(s.worst_case_miou / today) if today else NOTHING
            bound = lower(s.worst_case_miou), times, lower(s.certified_accuracy)
            rows.append((f"{N0 + n}", exact(tau), kind, *bound, *map(measured, shares)))
    heads = (
        "runs", "tau", "certificate", "worst-case mIoU (majority or nothing)", "times that of labels (arg-max)",
        "certified accuracy", "certified label", "at most 1 label", "at most 2", "at most 3", "truth in set",
        "information gain",
    )  # fmt: skip
    notes = (
        "The two mIoU are bounds for different models: the arg-max model answers always, the majority-or-nothing model "
        "gives no answer where no label has a majority, which counts as a miss.",
    )
    return Table("Sets", heads, tuple(rows), notes)


def looks_table(scenes: Sequence[Results]) -> Table:
    """One test of all draws, and looks."""
    rows = []
    for name in scenes[0]["looks"]:
        matrices = [from_plain(each["looks"][name]["matrix"]) for each in scenes]
        draws = sum(each["looks"][name]["draws"] for each in scenes) / len(scenes)
        total = sum(matrices)
        saved = measured(1 - (draws + N0) / (N + N0))
        rows.append((name, f"{draws + N0:.1f}", saved, lower(worst_case_accuracy(total)), measured(abstention(total))))
    heads = ("tests at tau = 0.75", "runs a scene", "saved", "certified accuracy", "abstained (valid)")
    when = f"{LOOKS} looks at fixed times, each at alpha / {LOOKS}; the first where draws that all agree can certify."
    return Table(f"Looks in {N0 + N} runs", heads, tuple(rows), (when,))


def metrics_table(scenes: Sequence[Results]) -> Table:
    """Metric certificates beside the certified accuracy of voted labels."""
    rows = []
    for i, (n, tau) in enumerate(METRIC_RADII):
        means = []
        for m in range(len(METRICS)):
            bounds = [each["metrics"][m][i] for each in scenes]
            means.append(NOTHING if None in bounds else lower(float(np.mean(bounds))))
        rows.append((f"{n}", radius_text(sc.Gaussian(SIGMA).radius(tau), 3), *means))
    heads = ("runs", "R", *(f"{name}, mean of the scenes' bounds" for name in METRICS))
    notes = (
        f"In each scene, under every perturbation of l2 norm at most R, at least {exact(SHARE)} of the noisy runs keep "
        "that scene's bound: one noisy run, not the voted map. mIoU is that of each single map. Bounds of different "
        "scenes and metrics hold together at the sum of their alphas.",
    )
    return Table("Metrics", heads, tuple(rows), notes)


if __name__ == "__main__":
    start(main)
