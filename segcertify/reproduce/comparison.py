"""Our numbers beside the paper's: the models of a table evaluated, and the table that shows both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from segcertify.claims import Claim, row_notes, seed_assumption
from segcertify.data import DataSet
from segcertify.data.domain import CLOUD, IMAGE
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.noise import parse
from segcertify.numerals import counted, lower, measured, radius_text
from segcertify.preprocessing import in_words, of_cloud
from segcertify.report.categories import Category, shape_scores
from segcertify.report.summary import Row
from segcertify.report.table import Table
from segcertify.reproduce.axis_angle import CAVEAT, UnprovenAxisAngle
from segcertify.reproduce.paper_figures import sweep_notes
from segcertify.reproduce.paper_tables import SWEPT, UNPROVEN, PaperRow, PaperTable, folder_of, setting_of
from segcertify.sampling.inputs import working_device
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category

Models = Mapping[str, Callable[[], Segmenter]]
Ours = dict[tuple[str, str, Setting | None], list[Row]]
"""Our rows by model, noise and setting: with Holm first, then with Bonferroni where a table has both."""
_OTHER_TEST = (
    "Our models are small. They were trained on generated shapes and a few real ones, and are evaluated on a few real "
    "ones; the paper's were trained on all of ShapeNet-Part. This is not the same test: the numbers do not say which "
    "model is better, and ours are not ShapeNet's."
)


def reproduce(
    table: PaperTable, data: Callable[[bool], DataSet], *, models: Models, out: Path, heads: Sequence[str] = (),
    name: str = "", seed: int = 0, device: str | None = None, batch_size: int | None = None, precision: str = "fp32",
    progress: bool | None = None,
) -> Table:  # fmt: skip
    """Evaluate the models that are given, and set our numbers beside the paper's.

    ``data`` gives the scenes, with or without normals; ``models`` makes those of ``table.models``
    to evaluate. Each model and noise is an evaluation of its own in ``out`` (`folder_of`): run
    again to resume. Rows that the paper leaves empty for the data set are left out. ``heads`` chooses the rows to
    show, all by default; ``name`` goes before the models' names.
    """
    unknown = [each for each in models if each not in table.models]
    if unknown or not models:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError(f"{table.name} has the models {', '.join(table.models)}, but got {got}: give one of these")
    chosen = {each: (data(each.endswith("-normals")), models[each]) for each in table.models if each in models}
    for each, (scenes, make) in chosen.items():  # before the long work of the first
        _require_fit(table, each, scenes, make(), device)
    table = table.on(kind_of(next(iter(chosen.values()))[0].name))
    ours: Ours = {}
    for each, (scenes, make) in chosen.items():
        model = make()
        for noise, settings in table.runs(each).items():
            run = evaluate(
                model, scenes, out=folder_of(out, each, noise), settings=settings, n0=table.n0, alpha=table.alpha,
                noise=UnprovenAxisAngle if noise == UNPROVEN else noise, seed=seed, device=device,
                corrections=("holm", "bonferroni") if table.difference else ("holm",), batch_size=batch_size,
                name=f"{name} {each}".strip(), precision=precision, progress=progress,
            )  # fmt: skip
            for row in run.rows:
                ours.setdefault((each, noise, setting_of(row)), []).append(row)
    shown = [row for row in table.rows if row.head in (heads or table.heads)]
    return _beside(table, shown, ours, {scenes.name: len(scenes) for scenes, _ in chosen.values()})


def _require_fit(table: PaperTable, name: str, scenes: DataSet, model: Segmenter, device: str | None) -> None:
    """Refuse scenes that the table is not about, and a model that does not take them."""
    scene, domain = scenes[0], CLOUD if table.clouds else IMAGE
    if scene.domain is not domain:
        raise InputError(f"{table.name} is of {domain.name}s, but {scenes.name} holds inputs of shape {scene.x.shape}")
    try:
        base_labels(for_category(model, scene.category), torch.from_numpy(scene.x).to(working_device(device, model)))
    except InputError as error:
        raise InputError(f"the model {name} on {scenes.name}: {error}") from None


def beside_results(table: PaperTable, results: Mapping[str, Any], heads: Sequence[str] = ()) -> Table:
    """A table of clouds with our numbers from the results that ``experiments/cloud_models.py`` wrote."""
    ours: Ours = {}
    for model in results["models"]:
        for run in model["runs"]:
            for values in run["rows"]:
                row = stored_row(values, run)
                ours.setdefault((model["name"], run["noise"], setting_of(row)), []).append(row)
    shown = [row for row in table.rows if row.head in (heads or table.heads)]
    sets = {model["data"]: model["scenes"] for model in results["models"] if model["name"] in table.models}
    result = _beside(table, shown, ours, sets)
    return replace(result, notes=(result.notes[0], _OTHER_TEST, *result.notes[1:]))


OMITTED = ("iou", "class_accuracy", "class_abstained", "claim")
"""Not stored: what a row says of the 50 parts, many of which do not occur, and what follows from the rest."""


def stored_row(values: Mapping[str, Any], run: Mapping[str, Any]) -> Row:
    """A stored row of clouds. Older ones keep no certified accuracy: without a budget of errors, it is the accuracy."""
    claim = stored_claim(values, run)
    known: dict[str, Any] = {} if claim and claim.budget else {"certified_accuracy": values["accuracy"]}
    known["mislabelled"] = round(max(0.0, 1 - values["accuracy"] - values["abstained"]), 12)  # older ones lack it
    given: dict[str, Any] = {"categories": tuple(Category(**each) for each in values["categories"]), "claim": claim}
    return Row(**known | dict.fromkeys(OMITTED, ()) | dict(values) | given)


def stored_claim(row: Mapping[str, Any], run: Mapping[str, Any]) -> Claim | None:
    """The claim of a stored row of clouds; None of the model itself. The paper's own noise has no proof.

    Results are of clouds of a data set, each centred and scaled, and of a seed that was given.
    """
    if row["sigma"] is None:
        return None
    noise = UNPROVEN if run["noise"] == UNPROVEN else CLOUD.noise(parse(run["noise"])(row["sigma"]))
    remarks = f"{in_words(of_cloud())} {seed_assumption(True, what='scenes and model')}"
    return Claim.named(row["correction"], run["alpha"], noise, remarks=remarks)


def kind_of(name: str) -> str:
    """The data set that the name of a set of scenes begins with."""
    return name.partition("/")[0]


def _beside(table: PaperTable, shown: Sequence[PaperRow], ours: Ours, sets: Mapping[str, int]) -> Table:
    """Our numbers in the paper's table: what we compare, then what only we measure."""
    compared = [("acc", "acc", "accuracy"), ("mIoU", "miou", "miou_pooled"), ("abstained", "abstain", "abstained_all")]
    compared = compared[::2] if table.clouds else compared
    extra = [*(["shape IoU", "worst case"] if table.clouds else ["mIoU worst case"]), "s"]
    kind, body = kind_of(next(iter(sets))), []
    given = {key for row in table.rows for numbers in row.paper.values() for key in numbers}
    for row in shown:
        found, paper = ours.get((row.model, row.noise, row.setting), []), row.numbers(kind)
        cells = [row.head, row.label, _radius(row, found[0]) if found else ""]
        for _, key, attribute in compared:
            cells.append(_number(found, attribute, difference=table.difference) if found else "")
            if key in given:
                cells.append(_typed(paper[key], difference=table.difference) if key in paper else "")
        if not table.difference:
            cells += _only_ours(found[0], clouds=table.clouds) if found else [""] * len(extra)
            cells += [f"{paper['t']:.2f}" if "t" in paper else ""] if "t" in given else []
        body.append(tuple(cells))
    heads = ["model" if table.clouds else "scale", "setting", "R"]
    heads += [text for head, key, _ in compared for text in (head, *([f"paper {head}"] if key in given else []))]
    heads += [] if table.difference else [*extra, *(["paper s"] if "t" in given else [])]
    said = () if table.difference else _claimed(shown, ours, max(sets.values()))
    return Table(table.title, tuple(heads), tuple(body), (*_notes(table, sets), *said))


def _claimed(shown: Sequence[PaperRow], ours: Ours, scenes: int) -> list[str]:
    """What our rows claim; of several noises, each by its name: one of them may have no proof."""
    found: dict[str, list[Claim | None]] = {}
    for row in shown:
        found.setdefault(row.noise, []).extend(
            each.claim for each in ours.get((row.model, row.noise, row.setting), [])[:1]
        )
    claims = {noise: each for noise, each in found.items() if any(each)}
    return [
        note
        for noise, each in claims.items()
        for note in row_notes(each, scenes, bounds="worst-case IoUs", noise=noise if len(claims) > 1 else "")
    ]


def _radius(row: PaperRow, ours: Row) -> str:
    claimed = " claimed" if row.noise == UNPROVEN else ""
    return "" if ours.radius is None else f"{radius_text(ours.radius, 3)}{claimed}"


def _number(found: Sequence[Row], attribute: str, *, difference: bool) -> str:
    """A number of ours with Holm, or what Bonferroni changes in it."""
    holm, last = (float(getattr(row, attribute)) for row in (found[0], found[-1]))
    return f"{last - holm:+.4f}" if difference else measured(holm)


def _typed(number: float, *, difference: bool) -> str:
    """A number of the paper with its decimals, at least two and at most four."""
    text = f"{number:.4f}"
    return text if difference else f"{number:.2f}" if text.endswith("00") else text


def _only_ours(row: Row, *, clouds: bool) -> list[str]:
    """IoUs that the paper does not give (worst cases of certified rows alone), and the seconds of a scene."""
    seconds, certified = f"{row.sampling_seconds + row.testing_seconds:.2f}", row.lower_bound
    if not clouds:
        return [lower(row.miou_worst_case) if certified else "", seconds]
    if not row.categories:
        return ["", "", seconds]
    scores = shape_scores(row.categories)
    return [measured(scores.mean), lower(scores.worst_case) if certified else "", seconds]


def _notes(table: PaperTable, sets: Mapping[str, int]) -> tuple[str, ...]:
    """What a reader of the numbers must know."""
    kind = "cloud" if table.clouds else "scene"
    scenes = " and ".join(f"{counted(count, kind)} of {name}" for name, count in sets.items())
    made = f"{scenes}; n0 = {table.n0}, alpha = {table.alpha:g}."
    if not table.clouds:
        return (
            made,
            "mIoU is pooled, and abstained counts all pixels, as in the paper's code.",
            "Do not expect to match the paper's rows: its released sampler reused noise between draws.",
            *(sweep_notes(table) if table.name in SWEPT else ()),
        )
    unproven = (
        f"axis-angle is the paper's noise; its R is what the paper claims, and {CAVEAT}. The rows of rotation are true "
        "certificates (the heat kernel on SO(3)): R is the rotation angle about any axis, in radians."
    )
    return (
        made,
        "A model's name is the sigma of its training; abstained counts all points.",
        *([unproven] if any(row.noise == UNPROVEN for row in table.rows) else []),
        "Do not expect to match the paper's rows: it says that they are of every 28th test shape, but its released "
        "scripts take the first 100, which are all aeroplanes, and alpha = 0.0001.",
        *(sweep_notes(table) if table.name in SWEPT else ()),
    )
