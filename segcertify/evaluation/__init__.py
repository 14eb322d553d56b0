"""A model over a data set, certified and perhaps attacked."""

from __future__ import annotations

from segcertify.evaluation.noises import NOISES
from segcertify.evaluation.run import evaluate
from segcertify.records import AttackSettings, Configuration, Setting, configuration_of

__all__ = ["NOISES", "AttackSettings", "Configuration", "Setting", "configuration_of", "evaluate"]
