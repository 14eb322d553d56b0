"""The reference of the public Python names: pages for mkdocstrings, made from docstrings while the site is built."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import segcertify


class Group(NamedTuple):
    """Names that belong together, on one page."""

    file: str
    title: str
    about: str
    names: tuple[str, ...]
    """Names of `segcertify`, or modules, of which all public names are shown."""


GROUPS = (
    Group("certify", "Certify", "From a model and an input to votes and certificates.",
          ("certify", "Smooth", "sample", "certify_votes", "radius_map", "RadiusMap", "certify_sets", "certify_metric",
           "Enough", "joint_class", "indiv_class", "cohen")),
    Group("results", "Certificates and votes", "What certifying gives. All are files too: `save` and `load`.",
          ("Certificate", "ABSTAIN", "SetCertificate", "MetricCertificate", "Votes", "InputError", "ModelError")),
    Group("pictures", "Pictures", "Of votes and of every certificate; their `plot` and notebooks use these.",
          ("plot", "as_html")),
    Group("noise", "Noises", "What is drawn, and which radius it proves.",
          ("Gaussian", "Laplace", "Uniform", "AxisRotation", "Rotation", "scale_for")),
    Group("plan", "Planning", "How many draws a claim needs, before any is made.",
          ("plan", "plan_sets", "plan_metric")),
    Group("evaluate", "Evaluation", "A model over a data set: resumable, with records and tables.", ("evaluate",)),
    Group("models", "Models", "What a spec loads, wrappers, and training's new models.", ("models",)),
    Group("data", "Data", "Scenes, data sets and their specs.", ("data",)),
    Group("metrics", "Metrics", "How good certificates are. An abstention counts as wrong.", ("metrics",)),
    Group("attacks", "Attacks", "Searches for a perturbation that moves labels.", ("attacks",)),
    Group("audit", "Audits", "Attempts to refute a certificate, a run or a sampler.", ("audit",)),
    Group("training", "Training", "Base models that can be certified.", ("training",)),
)  # fmt: skip
"""The pages of the reference."""


def pages() -> dict[str, str]:
    """The text of each page, by its path."""
    return {"docs/reference/index.md": _index()} | {f"docs/reference/{each.file}.md": _page(each) for each in GROUPS}


def _index() -> str:
    lines = ["# Python reference", "", "Made from the docstrings of the code. `sc` is `segcertify`.", ""]
    lines += ["| page | what it is about | names |", "| --- | --- | --- |"]
    for group in GROUPS:
        names = ", ".join(f"`sc.{name}`" for name in group.names)
        lines.append(f"| [{group.title}]({group.file}.md) | {group.about} | {names} |")
    return "\n".join(lines) + "\n"


def _page(group: Group) -> str:
    parts = [f"# {group.title}", group.about]
    for name in group.names:
        if name == "cohen" or (len(group.names) == 1 and name in segcertify._MODULES):
            module = importlib.import_module(f"segcertify.{segcertify._MODULES[name]}")
            parts += [f"`import segcertify as sc`, then `sc.{name}.NAME`."] if name != "cohen" else []
            parts += [_entry(module.__name__, each, f"sc.{name}") for each in _public(module)]
        else:
            parts.append(_entry("segcertify", name, "sc"))
    return "\n\n".join(parts) + "\n"


def _public(module: object) -> list[str]:
    """The public names of a module, those that start with a capital last."""
    names = getattr(module, "__all__", None) or ("predict", "certify")
    return sorted(names, key=lambda name: (name[:1].isupper(), name))


def _entry(module: str, name: str, shown: str) -> str:
    """The docstring of what has the name, where it is defined, under the name that users write."""
    value = getattr(importlib.import_module(module), name)
    home = f"{value.__module__}.{value.__qualname__}" if callable(value) and hasattr(value, "__qualname__") else ""
    options = {"heading": f"{shown}.{name}", "toc_label": name, "show_root_heading": "true", "heading_level": 2}
    lines = [f"::: {home or _constant(module, name)}", "    options:"]
    return "\n".join([*lines, *(f"      {key}: {each}" for key, each in options.items())])


def _constant(module: str, name: str) -> str:
    """Where a constant is defined: the module that assigns it."""
    if module == "segcertify":
        return f"segcertify.{segcertify._NAMES[name]}.{name}"
    return f"{module}.{name}"
