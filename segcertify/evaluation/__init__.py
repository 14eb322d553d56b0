"""A model over a data set, certified and perhaps attacked."""

from segcertify.evaluation.run import evaluate
from segcertify.records import AttackSettings, Configuration, MetricSettings, Setting

__all__ = ["AttackSettings", "Configuration", "MetricSettings", "Setting", "evaluate"]
