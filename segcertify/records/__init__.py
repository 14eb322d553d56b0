"""What an evaluation was asked and what it found, on disk. No torch."""

from __future__ import annotations

from segcertify.records.record import Kind, Record, RecordFile, read_records, scored
from segcertify.records.run_folder import claim_folder, configuration_of
from segcertify.records.settings import AttackSettings, Configuration, Setting, distinct

__all__ = [
    "AttackSettings",
    "Configuration",
    "Kind",
    "Record",
    "RecordFile",
    "Setting",
    "claim_folder",
    "configuration_of",
    "distinct",
    "read_records",
    "scored",
]
