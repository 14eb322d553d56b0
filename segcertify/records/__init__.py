"""The settings of an evaluation and what it found, on disk. No torch."""

from segcertify.records.record import Kind, Record, RecordFile, grouped, read_records
from segcertify.records.run_folder import RunFolder
from segcertify.records.settings import (
    SETS,
    AttackSettings,
    Configuration,
    LookSettings,
    MetricSettings,
    Setting,
    distinct,
)

__all__ = [
    "SETS", "AttackSettings", "Configuration", "Kind", "LookSettings", "MetricSettings", "Record", "RecordFile",
    "RunFolder", "Setting", "distinct", "grouped", "read_records",
]  # fmt: skip
