"""Certified segmentation by randomized smoothing.

    import segcertify as sc
    cert = sc.certify(model, x, sigma=0.25, tau=0.75, n=100, n0=10, alpha=0.001)

Names load on first use: importing the package is quick, and certifying votes
needs no torch.
"""

from __future__ import annotations

import importlib

__version__ = "0.3.0"

TYPE_CHECKING = False  # not from typing: `python -m segcertify` would look for it in the working folder first
if TYPE_CHECKING:
    from typing import Any

    from segcertify import attacks as attacks
    from segcertify import audit as audit
    from segcertify import data as data
    from segcertify import metrics as metrics
    from segcertify import models as models
    from segcertify import training as training
    from segcertify.certificate import ABSTAIN as ABSTAIN
    from segcertify.certificate import Certificate as Certificate
    from segcertify.certification import certify_votes as certify_votes
    from segcertify.certification import indiv_class as indiv_class
    from segcertify.certification import radius_map as radius_map
    from segcertify.errors import InputError as InputError
    from segcertify.errors import ModelError as ModelError
    from segcertify.evaluation import evaluate as evaluate
    from segcertify.figures.html import as_html as as_html
    from segcertify.figures.plots import plot as plot
    from segcertify.looks import Enough as Enough
    from segcertify.metrics.certificate import MetricCertificate as MetricCertificate
    from segcertify.metrics.planning import plan_metric as plan_metric
    from segcertify.noise import AxisRotation as AxisRotation
    from segcertify.noise import Gaussian as Gaussian
    from segcertify.noise import Laplace as Laplace
    from segcertify.noise import Rotation as Rotation
    from segcertify.noise import Uniform as Uniform
    from segcertify.noise import scale_for as scale_for
    from segcertify.radii import RadiusMap as RadiusMap
    from segcertify.sampling import cohen as cohen
    from segcertify.sampling.baselines import joint_class as joint_class
    from segcertify.sampling.metrics import certify_metric as certify_metric
    from segcertify.sampling.smooth import Smooth as Smooth
    from segcertify.sampling.smooth import certify as certify
    from segcertify.sampling.smooth import sample as sample
    from segcertify.sets.certificate import SetCertificate as SetCertificate
    from segcertify.sets.exclusion import certify_sets as certify_sets
    from segcertify.sets.planning import plan_sets as plan_sets
    from segcertify.stats.planning import plan as plan
    from segcertify.votes import Votes as Votes

_HOME = {
    "certificate": ("ABSTAIN", "Certificate"),
    "votes": ("Votes",),
    "looks": ("Enough",),
    "figures.plots": ("plot",),
    "figures.html": ("as_html",),
    "certification": ("certify_votes", "indiv_class", "radius_map"),
    "metrics.certificate": ("MetricCertificate",),
    "metrics.planning": ("plan_metric",),
    "stats.planning": ("plan",),
    "noise": ("AxisRotation", "Gaussian", "Laplace", "Rotation", "Uniform", "scale_for"),
    "sampling.smooth": ("Smooth", "certify", "sample"),
    "sampling.baselines": ("joint_class",),
    "sampling.metrics": ("certify_metric",),
    "evaluation": ("evaluate",),
    "errors": ("InputError", "ModelError"),
    "radii": ("RadiusMap",),
    "sets.exclusion": ("certify_sets",),
    "sets.certificate": ("SetCertificate",),
    "sets.planning": ("plan_sets",),
}
_NAMES = {name: module for module, names in _HOME.items() for name in names}
_MODULES = {name: name for name in ("attacks", "audit", "data", "metrics", "models", "training")} | {
    "cohen": "sampling.cohen"
}

__all__ = ["__version__", *_NAMES, *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"segcertify.{_NAMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"segcertify.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'segcertify' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
