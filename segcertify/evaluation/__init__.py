"""A model over a data set, certified and perhaps attacked."""

from segcertify.evaluation.run import evaluate
from segcertify.records import AttackSettings, Configuration, Setting

__all__ = ["AttackSettings", "Configuration", "Setting", "evaluate"]
