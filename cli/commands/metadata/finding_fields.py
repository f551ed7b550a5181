"""Findings as the fields that `metadata check` and `metadata repair` write."""

from typing import Any, Final

from hedwig.cli.output.fields import version_text
from hedwig.names import name_fields
from hedwig.operations.checks.reported import Reported

__all__ = ["COLUMNS", "finding_fields"]

COLUMNS: Final = (
    "severity",
    "kind",
    "topic",
    "subscriber",
    "ledger_ids",
    "version",
    "what",
    "why",
    "repair",
    "repairable",
)


def finding_fields(reported: Reported) -> dict[str, Any]:
    """Return a finding as the fields that commands write."""
    finding = reported.finding
    version = finding.version if finding.record is None else finding.record.version
    fields: dict[str, Any] = {"severity": reported.severity.name.lower(), "kind": finding.kind.value}
    fields |= {"topic": None, "subscriber": None}
    if finding.key is not None:
        fields |= name_fields(finding.key.topic, finding.key.subscriber)
    elif reported.topic is not None:
        fields |= name_fields(reported.topic)
    return fields | {
        "ledger_ids": list(finding.ledger_ids),
        "version": version_text(version),
        "what": finding.what,
        "why": reported.why,
        "repair": reported.remedy,
        "repairable": reported.is_repairable,
    }
