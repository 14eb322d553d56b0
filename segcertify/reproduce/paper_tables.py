"""The paper's tables and tau sweeps, with its numbers [Fischer2021, section 6 and appendix B].

A table of images has a row for each scale and setting; a table of clouds has one for each model, noise and setting.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from segcertify.errors import InputError, unknown
from segcertify.records import Setting
from segcertify.report.summary import Row

IMAGES = ("table1", "table1-extended", "bonferroni", "consistency", "tau-sweep")
CLOUDS = ("table2", "table2-bonferroni", "tau-sweep-clouds", "rotation")
SUBSETS = {"cityscapes": (5, 100), "pascal-context": (51, 100), "shapenet": (28, 100)}
"""The scenes that the paper evaluates on: every k-th, and how many at most."""

SWEPT = {"tau-sweep": "Cityscapes", "tau-sweep-clouds": "ShapeNet"}
"""The tables whose points a figure shows, with the data set of the paper's points."""

UNPROVEN = "axis-angle"
DRAWN = {"gaussian": "", "rotation": "rotation, ", UNPROVEN: "axis-angle, as in the paper, "}

Numbers = Mapping[str, float]


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

    def on(self, data: str) -> Self:
        """The table without the rows that the paper leaves empty for a data set. If it has no numbers at all: all."""
        if not any(row.numbers(data) for row in self.rows):
            return self
        return replace(self, rows=tuple(row for row in self.rows if row.numbers(data) or not row.paper))

    def chosen(self, wanted: Sequence[Mapping[str, float]]) -> Self:
        """The table with the rows that have all values of one of these, and the rows without noise; with none, all.

        A value is of ``sigma``, ``n`` or ``tau``, such as ``{"sigma": 0.25, "n": 100}``.
        """
        settings = [row.setting for row in self.rows if row.setting is not None]
        for values in wanted:
            for name, value in values.items():
                if value not in (there := sorted({getattr(each, name) for each in settings})):
                    raise unknown(name, f"{value:g}", [f"{each:g}" for each in there], where=f" of {self.name}")
            if not any(_has(each, values) for each in settings):
                asked = ",".join(f"{name}={value:g}" for name, value in values.items())
                raise InputError(f"no row of {self.name} has {asked}: leave one of these values out")
        rows = [row for row in self.rows if row.setting is None or any(_has(row.setting, each) for each in wanted)]
        return replace(self, rows=tuple(rows)) if wanted else self


def _has(setting: Setting, values: Mapping[str, float]) -> bool:
    return all(getattr(setting, name) == value for name, value in values.items())


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
    """The rows of a table of images, then those of its sweeps."""
    swept = [values | {"cityscapes": {"acc": values["acc"]}} for values in _swept(content)]
    for values in (*content.get("row", []), *swept):
        setting, scale = _setting(values), values["scale"]
        label = f"{values['model']} model" if setting is None else setting_text(setting)
        model = f"{'non-robust' if values['model'] == 'non-robust' else 'base'}-scale{scale}"
        yield PaperRow(scale, label, model, setting, {name: values[name] for name in SUBSETS if name in values})


def _cloud_rows(content: Mapping[str, Any]) -> Iterator[PaperRow]:
    """Each model's rows under each noise; the paper's numbers belong to the first noise."""
    first, *others = content.get("noises", ["gaussian"])
    for model in content["model"]:
        name, rows = model["name"], [*model.get("rows", []), *_swept(model)]
        for values in rows:
            setting = _setting(values)
            label = "no noise" if setting is None else DRAWN[first] + setting_text(setting)
            paper = {key: values[key] for key in ("acc", "abstain", "t") if key in values}
            yield PaperRow(name, label, name, setting, {"": paper}, first)
        for noise in others:
            for setting in filter(None, map(_setting, rows)):
                yield PaperRow(name, DRAWN[noise] + setting_text(setting), name, setting, {}, noise)


def _swept(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each point of the sweeps, with the paper's accuracy."""
    for sweep in content.get("sweep", []):
        for tau, acc in zip(sweep["tau"], sweep["acc"], strict=True):
            yield sweep | {"model": "segcertify", "tau": tau, "acc": acc}


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    return f"sigma={setting.sigma:g}, n={setting.n}, tau={setting.tau:g}"


def folder_of(out: Path, model: str, noise: str = "gaussian") -> Path:
    """The folder of a model's evaluation under a noise."""
    return out / (model if noise == "gaussian" else f"{model}-{noise}")


def setting_of(row: Row) -> Setting | None:
    """A row's setting; None of the model itself."""
    return None if row.sigma is None or row.n is None or row.tau is None else Setting(row.sigma, row.n, row.tau)
