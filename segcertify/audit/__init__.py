"""Audits: attempts to refute a certificate, or the sampler behind it, with their own chance of a false alarm."""

from segcertify.audit.certificates import Audit, Finding, Perturbed, audit_certificate, audit_many
from segcertify.audit.metrics import MetricFinding, MetricPerturbed, audit_metric
from segcertify.audit.runs import audit_run
from segcertify.audit.samplers import Check, SamplerFinding, audit_sampler, own_draws
from segcertify.audit.sets import SetFinding, audit_sets

__all__ = [
    "Audit", "Check", "Finding", "MetricFinding", "MetricPerturbed", "Perturbed", "SamplerFinding", "SetFinding",
    "audit_certificate", "audit_many", "audit_metric", "audit_run", "audit_sampler", "audit_sets", "own_draws",
]  # fmt: skip
