"""The paper's tables and tau sweeps, our numbers beside the paper's [Fischer2021, section 6 and appendix B].

A table of images has a row for each scale and setting; a table of clouds has one for each model, noise and setting.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from segcertify.data import DataSet
from segcertify.data.domain import CLOUD, IMAGE
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.numerals import radius_text
from segcertify.report.categories import shape_scores
from segcertify.report.figures import radius_figure
from segcertify.report.run import Run
from segcertify.report.summary import Row
from segcertify.report.table import Table
from segcertify.reproduce.axis_angle import CAVEAT, UnprovenAxisAngle
from segcertify.sampling.draws import working_device
from segcertify.sampling.segmenter import Segmenter, base_labels, for_category

IMAGES = ("table1", "table1-extended", "bonferroni", "consistency", "tau-sweep")
CLOUDS = ("table2", "table2-bonferroni", "tau-sweep-clouds", "rotation")
SUBSETS = {"cityscapes": (5, 100), "pascal-context": (51, 100), "shapenet": (28, 100)}
"""The scenes that the paper evaluates on: every k-th, and how many at most."""

UNPROVEN = "axis-angle"
DRAWN = {"gaussian": "", "rotation": "rotation, ", UNPROVEN: "axis-angle, as in the paper, "}

Numbers = Mapping[str, float]
Models = Mapping[str, Callable[[], Segmenter]]
Ours = dict[tuple[str, str, Setting | None], list[Row]]
"""Our rows by model, noise and setting: with Holm first, then with Bonferroni where a table has both."""


@dataclass(frozen=True)
class PaperRow:
    """A row of a table.

    ``model`` names the model that is evaluated: "base-scale0.25" or "non-robust-scale0.25" of images,
    the sigma of its training such as "0.25-normals" of clouds. ``setting`` is None for the model itself.
    ``paper`` holds the paper's acc, miou, abstain and t, by the data set where there are several.
    """

    head: str
    label: str
    model: str
    setting: Setting | None
    paper: Mapping[str, Numbers]
    noise: str = "gaussian"

    def numbers(self, data: str) -> Numbers:
        """The paper's numbers on a data set."""
        return self.paper.get(data, self.paper.get("", {}))


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper; ``difference`` if it shows Bonferroni minus Holm."""

    name: str
    title: str
    n0: int
    alpha: float
    difference: bool
    rows: tuple[PaperRow, ...]

    @property
    def clouds(self) -> bool:
        """Whether it is about clouds, not images."""
        return self.name in CLOUDS

    @property
    def heads(self) -> tuple[str, ...]:
        """The scales of images or the models of clouds, in order."""
        return tuple(dict.fromkeys(row.head for row in self.rows))

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names, in order; those that end in ``-normals`` take normals."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    def runs(self, model: str) -> dict[str, list[Setting]]:
        """The noises that a model is evaluated with, and the settings under each."""
        mine = [(row.noise, row.setting) for row in self.rows if row.model == model]
        return {noise: [each for name, each in mine if name == noise and each is not None] for noise, _ in mine}


def paper_table(name: str) -> PaperTable:
    """A table of the paper by name, with its numbers."""
    if name not in IMAGES + CLOUDS:
        raise InputError(f"unknown table {name!r}: use one of {', '.join(IMAGES + CLOUDS)}")
    content, title = _read(name), None
    if "include" in content:
        title, content = content["title"], _read(content["include"])
        content["row"] = [row for row in content["row"] if row.get("main")]
    rows = tuple((_cloud_rows if name in CLOUDS else _image_rows)(content))
    difference = content.get("difference", False)
    return PaperTable(name, title or content["title"], content["n0"], content["alpha"], difference, rows)


def _read(name: str) -> dict[str, Any]:
    """The paper's numbers in a file of ``paper``, as typed."""
    return tomllib.loads((files("segcertify.reproduce") / "paper" / f"{name}.toml").read_text(encoding="utf-8"))


def _setting(values: Mapping[str, Any]) -> Setting | None:
    return Setting(values["sigma"], values["n"], values["tau"]) if "sigma" in values else None


def _image_rows(content: Mapping[str, Any]) -> Iterator[PaperRow]:
    """The rows of a table of images, then those of its sweep."""
    sweep = {"sigma": (), "tau": (), "model": "segcertify"} | content.get("sweep", {})
    swept = [sweep | {"sigma": sigma, "tau": tau} for sigma in sweep["sigma"] for tau in sweep["tau"]]
    for values in (*content.get("row", []), *swept):
        setting, scale = _setting(values), values["scale"]
        label = f"{values['model']} model" if setting is None else setting_text(setting)
        model = f"{'non-robust' if values['model'] == 'non-robust' else 'base'}-scale{scale}"
        yield PaperRow(scale, label, model, setting, {name: values[name] for name in SUBSETS if name in values})


def _cloud_rows(content: Mapping[str, Any]) -> Iterator[PaperRow]:
    """Each model's rows under each noise; the paper's numbers belong to the first noise."""
    first, *others = content.get("noises", ["gaussian"])
    for model in content["model"]:
        name, rows = model["name"], [*model.get("rows", [])]
        for sweep in model.get("sweep", []):
            pairs = zip(sweep["tau"], sweep["acc"], strict=True)
            rows += [{"sigma": sweep["sigma"], "n": sweep["n"], "tau": tau, "acc": acc} for tau, acc in pairs]
        for values in rows:
            setting = _setting(values)
            label = "no noise" if setting is None else DRAWN[first] + setting_text(setting)
            paper = {key: values[key] for key in ("acc", "abstain", "t") if key in values}
            yield PaperRow(name, label, name, setting, {"": paper}, first)
        for noise in others:
            for setting in filter(None, map(_setting, rows)):
                yield PaperRow(name, DRAWN[noise] + setting_text(setting), name, setting, {}, noise)


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    return f"sigma={setting.sigma:g}, n={setting.n}, tau={setting.tau:g}"


def reproduce(
    table: PaperTable, data: Callable[[bool], DataSet], *, models: Models, out: Path, heads: Sequence[str] = (),
    name: str = "", seed: int = 0, device: str | None = None, batch_size: int | None = None, precision: str = "fp32",
    progress: bool | None = None,
) -> Table:  # fmt: skip
    """Evaluate the models that are given, and set our numbers beside the paper's.

    ``data`` gives the scenes, with or without normals; ``models`` makes those of ``table.models``
    to evaluate. Each model and noise is an evaluation of its own in ``out`` (`folder_of`): run
    again to resume. ``heads`` chooses the rows to show, all by default; ``name`` goes before the models' names.
    """
    unknown = [each for each in models if each not in table.models]
    if unknown or not models:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError(f"{table.name} has the models {', '.join(table.models)}, but got {got}: give one of these")
    chosen = {each: (data(each.endswith("-normals")), models[each]) for each in table.models if each in models}
    for each, (scenes, make) in chosen.items():  # before the long work of the first
        _require_fit(table, each, scenes, make(), device)
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


def folder_of(out: Path, model: str, noise: str = "gaussian") -> Path:
    """The folder of a model's evaluation under a noise."""
    return out / (model if noise == "gaussian" else f"{model}-{noise}")


def setting_of(row: Row) -> Setting | None:
    """A row's setting; None of the model itself."""
    return None if row.sigma is None or row.n is None or row.tau is None else Setting(row.sigma, row.n, row.tau)


def sweep_figure(table: PaperTable, out: Path, models: Sequence[str]) -> Figure:
    """Certified accuracy against the radius as tau grows, of all these models [Fischer2021, Figures 3 and 4]."""
    runs = [Run.load(folder_of(out, name)) for name in models]
    curves = [curve for run in runs for curve in run.curves()]
    rows = [row for run in runs for row in run.rows if row.sigma is not None or not table.clouds]
    return radius_figure(curves, rows, title=table.title, power=1 if table.clouds else 4)


def _beside(table: PaperTable, shown: Sequence[PaperRow], ours: Ours, sets: Mapping[str, int]) -> Table:
    """Our numbers in the paper's table: what we compare, then what only we measure."""
    compared = [("acc", "acc", "accuracy"), ("mIoU", "miou", "miou_pooled"), ("abstained", "abstain", "abstained_all")]
    compared = compared[::2] if table.clouds else compared
    extra = [*(["shape IoU", "worst case"] if table.clouds else ["mIoU worst case"]), "s"]
    digits, kind, body = 4 if table.difference else 2, next(iter(sets)).partition("/")[0], []
    for row in shown:
        found, paper = ours.get((row.model, row.noise, row.setting), []), row.numbers(kind)
        cells = [row.head, row.label, _radius(row, found[0]) if found else ""]
        for _, key, attribute in compared:
            cells.append(_number(found, attribute, difference=table.difference) if found else "")
            cells.append(f"{paper[key]:.{digits}f}" if key in paper else "")
        if not table.difference:
            cells += _only_ours(found[0], clouds=table.clouds) if found else [""] * len(extra)
            cells.append(f"{paper['t']:.2f}" if "t" in paper else "")
        body.append(tuple(cells))
    heads = [
        "model" if table.clouds else "scale",
        "",
        "R",
        *(text for head, *_ in compared for text in (head, "paper")),
    ]
    heads += [] if table.difference else [*extra, "paper s"]
    return Table(table.title, tuple(heads), tuple(body), _notes(table, sets))


def _radius(row: PaperRow, ours: Row) -> str:
    claimed = " claimed" if row.noise == UNPROVEN else ""
    return "" if ours.radius is None else f"{radius_text(ours.radius, 3)}{claimed}"


def _number(found: Sequence[Row], attribute: str, *, difference: bool) -> str:
    """A number of ours with Holm, or what Bonferroni changes in it."""
    holm, last = (float(getattr(row, attribute)) for row in (found[0], found[-1]))
    return f"{last - holm:+.4f}" if difference else f"{holm:.4f}"


def _only_ours(row: Row, *, clouds: bool) -> list[str]:
    """IoUs that the paper does not give (worst cases of certified rows alone), and the seconds of a scene."""
    seconds, certified = f"{row.sampling_seconds + row.testing_seconds:.2f}", row.lower_bound
    if not clouds:
        return [f"{row.miou_worst_case:.4f}" if certified else "", seconds]
    if not row.categories:
        return ["", "", seconds]
    scores = shape_scores(row.categories)
    return [f"{scores.mean:.4f}", f"{scores.worst_case:.4f}" if certified else "", seconds]


def _notes(table: PaperTable, sets: Mapping[str, int]) -> tuple[str, ...]:
    """What a reader of the numbers must know."""
    kind = "clouds" if table.clouds else "scenes"
    scenes = " and ".join(f"{count} {kind} of {name}" for name, count in sets.items())
    made = f"{scenes}; n0 = {table.n0}, alpha = {table.alpha:g}."
    if not table.clouds:
        return (
            made,
            "mIoU is pooled, and abstained counts all pixels, as in the paper's code.",
            "Do not expect to match the paper's rows: its released sampler reused noise between draws.",
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
    )
