"""Images under attack beside what is certified of them [Fischer2021, Figure 1 and appendix C].

    python experiments/attack_examples.py pets --data 'pets:FOLDER?split=val' --example Birman_173 --random 6

Some images are picked by hand (--example), others by the seed alone (--random).
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from page import Results, document, parser, picture, remarks, render, require_different, save, start

import segcertify as sc
from segcertify import metrics
from segcertify.claims import Claim
from segcertify.cli.options import chosen_device, ready_model
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.names import code, markdown
from segcertify.numerals import (
    NOTHING,
    counted,
    exact,
    lower,
    lower_percent,
    measured,
    percent,
    radius_text,
    union_bound,
    upper,
)
from segcertify.progress import progress_bar
from segcertify.report.table import Table
from segcertify.storage import archive
from segcertify.storage.same_run import require_same_run

SIGMA, N0, N, TAU, ALPHA = 0.25, 10, 100, 0.75, 0.001
RADIUS = float(sc.Gaussian(SIGMA).radius(TAU))
LICENCES = {
    "pets": "Oxford-IIIT Pet (Parkhi et al. 2012), CC BY-SA 4.0",
    "camvid": "CamVid (Brostow et al. 2009), for research use",
}
"""The source of a data set's images, and what they may be used for."""
SECTIONS = {"hand_picked": ("Hand-picked", "hand-picked.jpg"), "random": ("Chosen at random", "random.jpg")}
"""The groups of examples: a title, and the file of the picture."""
KIND, VERSION = "attacked", 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack and certify images and write the page, or only write the page."""
    command = parser(__doc__, "results/attacks/NAME")
    command.add_argument("name", nargs="?", help="a bundled model with a twin: pets or camvid")
    command.add_argument("--model", help="the spec of the robust model, instead of NAME")
    command.add_argument("--non-robust", help="the spec of the non-robust model, instead of the twin")
    command.add_argument("--example", action="append", default=[], help="the id of an image to show; may be repeated")
    command.add_argument("--random", type=int, default=0, help="how many more images the seed chooses")
    command.add_argument("--radius", action="append", type=float, help="l2 radii beyond R (default 2 R and 4 R)")
    command.add_argument("--steps", type=int, default=100, help="steps of each attack on a base model (default 100)")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
        return
    if not options.data:
        raise InputError("name the images: --data 'pets:FOLDER?split=val', or a folder of results: --render FOLDER")
    robust, other = options.model or options.name, options.non_robust or (options.name and f"{options.name}-non-robust")
    if not robust or not other:
        raise InputError("name two models: pets or camvid brings its twin, others need --model and --non-robust")
    data, device = sc.data.load(options.data), chosen_device(options.device)
    chosen = choose(options, data)  # a bad choice is found before the models are read
    out = options.out or Path("results/attacks") / (options.name or data.name.partition("/")[0])
    run({named(spec): ready_model(spec, device) for spec in (robust, other)}, data, chosen, options, out, device)


def choose(options: argparse.Namespace, data: Any) -> dict[str, list[str]]:
    """The ids of each section's images, once all options are checked."""
    options.radius = options.radius or [2 * RADIUS, 4 * RADIUS]
    require_integer("random", options.random, at_least=0)
    require_integer("steps", options.steps)
    require_different("examples", options.example)
    require_different("radii", options.radius)
    if not options.example and not options.random:
        raise InputError("no images to attack: name some (--example ID), or ask for some at random (--random 6)")
    for radius in options.radius:
        if require_positive("radius", radius) <= RADIUS:
            raise InputError(
                f"further radii must be above {RADIUS:.6f}, the certified one, which is attacked anyway, but got "
                f"{radius:g}: leave it out"
            )
    for name in options.example:
        if name not in data.ids:
            close = get_close_matches(name, data.ids, n=3, cutoff=0.4) or data.ids[:3]
            raise InputError(f"no image {name!r} in {data.name}: there are {', '.join(close)}, ...")
    if options.random > len(data):
        raise InputError(f"{options.random} images at random, but {data.name} holds {len(data)}: ask for fewer")
    return {"hand_picked": options.example, "random": shuffled(data.ids, options.seed)[: options.random]}


def shuffled(ids: Iterable[str], seed: int) -> list[str]:
    """Ids in an order that only the seed decides: by the SHA-256 of seed and id."""
    return sorted(ids, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())


def named(spec: str) -> str:
    """A model's spec in which each file is described by its name and content, not by its folder."""
    from segcertify.models.initial_weights import described

    def part(found: re.Match[str]) -> str:
        path = Path(found[0])
        return described(path) if path.is_file() else path.name if path.is_dir() else found[0]

    return re.sub(r"[^:?&=]+", part, spec)


def run(
    models: dict[str, Any], data: Any, chosen: Results, options: argparse.Namespace, out: Path, device: str
) -> None:
    """Attack the chosen images, and write the results, their page and a picture of each section."""
    from attack_picture import jpeg, rows_figure

    names, cards = list(models), {name: sc.models.card_of(model) for name, model in models.items()}
    for name, card in cards.items():
        if card is not None and card.classes != data.classes:
            raise InputError(
                f"{name} has the classes {', '.join(card.classes)}, but {data.name} has {', '.join(data.classes)}: "
                "attack it on data of its own classes"
            )
    settings = {
        "version": sc.__version__, "device": device.partition(":")[0], "model": names[0], "non_robust": names[-1],
        "data": data.name, "sigma": SIGMA, "tau": TAU, "n": N, "n0": N0, "alpha": ALPHA, "correction": "holm",
        "radius": RADIUS, "steps": options.steps, "seed": options.seed,
    }  # fmt: skip
    ids = dict.fromkeys(chain(*chosen.values()))
    made = settings | {"radii": options.radius}
    found = outcomes(ids, made, data, out / "examples", lambda scene: outcome(models, data, scene, options, device))
    licence = LICENCES.get(kind := data.name.partition("/")[0], f"{kind}, under its own licence")
    trained = {name: card.data for name, card in cards.items() if card is not None}
    results = settings | {"trained": trained, "scenes": len(data), "licence": licence}
    for section, some in chosen.items():
        results[section] = [found[name][0] for name in some]
        if some:
            rows = [(found[name][1], captions(found[name][0])) for name in some]
            figure = rows_figure(rows, colours=data.colours / 255, names=data.classes, source=licence)
            (out / SECTIONS[section][1]).write_bytes(jpeg(figure))
    save(out, results, page)


def outcomes(ids: Iterable[str], settings: Results, data: Any, folder: Path, make: Any) -> dict[str, tuple[Any, Any]]:
    """The numbers and arrays of each image, made where the folder does not have them: the same call goes on there."""

    def stored(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        return archive.read(file, kind=KIND, version=VERSION, migrations={1: dict})

    files = {name: folder / f"{name}.safetensors" for name in ids}
    missing = {name: scene_of(data, name) for name, file in files.items() if not file.exists()}
    for file in (file for name, file in files.items() if name not in missing):
        require_same_run(stored(file)[0]["settings"], settings, where=file)
    with progress_bar(len(missing), f"attacking {len(missing)} images") as advance:
        for name, scene in missing.items():
            example, arrays = make(scene)
            header = {"settings": settings, "example": example}
            archive.write(files[name], kind=KIND, version=VERSION, header=header, arrays=arrays)
            advance(1)
    found = {name: stored(file) for name, file in files.items()}
    return {name: (header["example"], arrays) for name, (header, arrays) in found.items()}


def scene_of(data: Any, name: str) -> Any:
    """An image with ground truth."""
    scene = data[data.ids.index(name)]
    if scene.domain.name != "image":
        raise InputError(f"{name!r} of {data.name} is a point cloud, but pictures are of images: name such data")
    if not scene.valid.any():
        raise InputError(f"{name!r} of {data.name} has no pixel with ground truth to attack: take another image")
    return scene


def outcome(models: dict[str, Any], data: Any, scene: Any, options: argparse.Namespace, device: str) -> tuple[Any, Any]:
    """The numbers and the arrays of one image, certified and attacked."""
    import numpy as np
    import torch

    from segcertify.attacks.comparison import attack_base, compare
    from segcertify.attacks.gradient_ascent import GradientAscent
    from segcertify.sampling.segmenter import base_labels

    robust, other = next(iter(models.values())), [*models.values()][-1]
    how = {"steps": options.steps, "seed": options.seed, "progress": False}
    x, target = torch.from_numpy(scene.x).to(device), np.where(scene.valid, scene.target, -1)
    certificate = sc.certify(
        robust, x, sigma=SIGMA, tau=TAU, n=N, n0=N0, alpha=ALPHA, seed=options.seed, device=device, input_id=scene.id,
        progress=False,
    )  # fmt: skip
    found = compare(robust, other, x, certificate, target=target, **how)

    def confusion(labels: Any) -> Any:
        return metrics.confusion(labels, scene.target, scene.valid, classes=len(data.classes))

    def accuracies(radius: float, *labels: Any) -> dict[str, float]:
        non_robust, robust = (metrics.accuracy(confusion(each)) for each in labels)
        return {"radius": radius, "non_robust": non_robust, "robust": robust}

    base = [
        accuracies(0.0, found.non_robust.clean, found.robust.clean),
        accuracies(found.radius, found.non_robust.labels, found.robust.labels),
    ]
    for radius in options.radius:
        ascent = GradientAscent(options.steps, seed=options.seed)
        found_at = [
            attack_base(each, x, ascent, radius=radius, target=target, progress=False) for each in (other, robust)
        ]
        far = [base_labels(each, at) for each, at in zip((other, robust), found_at, strict=True)]
        base.append(accuracies(radius, *far))
    matrix, recounts = confusion(certificate.labels), [each.smoothed for each in found.attacks.values()]
    example = {
        "id": scene.id,
        "pixels": certificate.N,
        "certified": certificate.certified,
        "accuracy": metrics.accuracy(matrix),
        "abstained": metrics.abstention(matrix),
        "moved": max(each.moved for each in recounts),
        "refuted": max(each.refuted for each in recounts),
        "base": base,
    }
    maps = [target, found.non_robust.labels, found.robust.labels, certificate.labels]
    arrays = dict(
        zip(("target", "non_robust", "robust", "certified"), map(archive.smallest_integers, maps), strict=True)
    )
    return example, arrays | {"attacked": np.rint(255 * found.non_robust.x).astype(np.uint8)}


def captions(example: Results) -> tuple[str, ...]:
    """What stands below the panels of an image: the accuracies without attack and at the certified radius."""
    clean, attacked = example["base"][:2]
    changed = [
        f"{percent(clean[model])} \N{RIGHTWARDS ARROW} {percent(attacked[model])} right"
        for model in ("non_robust", "robust")
    ]
    right = f"at least {lower_percent(example['accuracy'])} right, {percent(example['abstained'])} white"
    return example["id"], "", *changed, right


def page(results: Results, folder: Path) -> str:
    """The page, with those of the pictures that are there."""
    blocks: list[Any] = [notes(results)]
    for section, (title, file) in SECTIONS.items():
        if examples := results[section]:
            shown = picture(f"{title}: images under attack within {radius_text(results['radius'], 3)}", file)
            blocks += [f"## {title}", shown if (folder / file).exists() else "The picture is not kept here."]
            blocks += [by_radius(examples, results["radius"]), by_example(examples)]
    made = f"segcertify {results['version']}, {results['device']}"
    return document("attack_examples", f"Attacks on {results['data'].partition('/')[0]}", made, *blocks)


def notes(results: Results) -> list[str]:
    """What a reader must know."""
    count, radius = len({each["id"] for each in (*results["hand_picked"], *results["random"])}), results["radius"]
    noise = sc.Gaussian(results["sigma"])
    claim = Claim.named(results["correction"], results["alpha"], noise, remarks=remarks(results))
    alone, all_of = union_bound(results["alpha"], 3), union_bound(results["alpha"], 4 * count)
    random = (
        f"At random: the first {len(results['random'])} of the {results['scenes']} images, in the order of the SHA-256 "
        f"of {code(str(results['seed']) + ' ID')}. Nobody picked them."
    )
    return [
        f"Models: {code(results['model'])}, smoothed for its certificates, and {code(results['non_robust'])}, trained "
        f"without noise. Data: {markdown(results['data'])}. PGD attacks both base models away from the ground truth in "
        f"{results['steps']} steps, inside an l2 ball around the image and inside [0, 1].",
        *(f"Trained: {code(model)} on {markdown(data)}." for model, data in results["trained"].items()),
        f"Certificates: sigma = {exact(results['sigma'])}, n0 = {results['n0']}, n = {results['n']}, tau = "
        f"{exact(results['tau'])}, alpha = {exact(results['alpha'])}, {results['correction']}: R = "
        f"{radius_text(radius, 3)}. They are of the image without attack. {claim.over(count)} Beyond R nothing is "
        f"certified ({NOTHING}), and an attack that fails proves nothing.",
        "Accuracies are shares of the pixels that have ground truth. An abstention counts as wrong in a certified "
        "accuracy, which is therefore a lower bound of the smoothed model's under every attack within R, rounded down; "
        "accuracies under attack are upper bounds, rounded up. All are "
        "higher on images that a model was trained on; certificates hold on any. Pictures show the attacks within R, "
        "one on each base model (the image is the non-robust model's); pixels that abstain or have no ground truth are "
        "white.",
        f"Moved: certified pixels with another majority among {results['n']} fresh draws, at the worst of three inputs "
        "within R, found by attacks on both base models and on the smoothed one. The certificate says that their "
        "label's probability stays above 1/2, perhaps just above, so a few may move; significantly none should. Each "
        "test is at level alpha for all pixels at one input, so the three of an image are at level 3 alpha = "
        f"{alone}. A certificate is itself false with probability at most alpha. So any significant move, on "
        f"{counted(count, 'image')}, has probability at most {count} x 4 alpha = {all_of}.",
        *([random] if results["random"] else []),
        f"Images: {results['licence']}. The pictures are derived from them (attacked, tinted, put side by side), under "
        "the same terms.",
    ]


def by_radius(examples: Sequence[Results], certified: float) -> Table:
    """Mean accuracies as the radius of the attack grows; the certificates' where they hold."""
    bound, rows = lower(fmean(each["accuracy"] for each in examples)), []
    for column in zip(*(each["base"] for each in examples), strict=True):
        radius = column[0]["radius"]
        text = upper if radius else measured
        means = [text(fmean(each[model] for each in column)) for model in ("non_robust", "robust")]
        rows.append((within(radius), bound if radius <= certified else NOTHING, *means[::-1]))
    heads = ("attack within", "certified, at least", "robust base model", "non-robust")
    return Table(f"Mean accuracy under attack ({images(examples)})", heads, tuple(rows))


def by_example(examples: Sequence[Results]) -> Table:
    """A row for each example, then their means; pixels are added up."""

    base = [upper if under["radius"] else measured for under in examples[0]["base"]]
    texts = [*base, *base, lower, measured]

    def numbers(each: Results) -> list[float]:
        base = [under[model] for model in ("non_robust", "robust") for under in each["base"]]
        return [*base, each["accuracy"], each["abstained"]]

    def line(name: str, values: Iterable[float], some: Sequence[Results]) -> tuple[str, ...]:
        certified, pixels, moved, refuted = (
            f"{sum(each[key] for each in some):,}" for key in ("certified", "pixels", "moved", "refuted")
        )
        shown = (text(value) for text, value in zip(texts, values, strict=True))
        return name, *shown, f"{certified} of {pixels}", moved, refuted

    radii = [within(under["radius"]) for under in examples[0]["base"]]
    attacked = [f"{model}, {radius}" for model in ("non-robust", "robust") for radius in radii]
    heads = ("example", *attacked, "certified", "abstained", "pixels certified", "of them moved", "significantly")
    means = map(fmean, zip(*map(numbers, examples), strict=True))
    rows = [line(each["id"], numbers(each), [each]) for each in examples]
    rows.append(line("mean; sum of pixels", means, examples))
    return Table(f"Accuracy by the radius of the attack ({images(examples)})", heads, tuple(rows))


def images(examples: Sequence[Results]) -> str:
    """How many there are."""
    return counted(len(examples), "image")


def within(radius: float) -> str:
    """The radius of an attack, in words."""
    return radius_text(radius, 3) if radius else "no attack"


if __name__ == "__main__":
    start(main)
