"""Verdicts of checks, and the exit codes that monitoring branches on."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

__all__ = ["CheckExit", "CheckResult", "CheckStatus", "exit_of"]


class CheckStatus(StrEnum):
    """The result of one check."""

    PASS = "PASS"
    WARN = "WARN"
    """It works, but an operator should look at it."""
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    """The check could not look at it."""
    SKIP = "SKIP"
    """There is nothing of that kind here."""


class CheckExit(IntEnum):
    """How a check ended, as monitoring systems read it."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the check `check`. `detail` tells people why, and what to do. `ms` is how long the check took."""

    check: str
    verdict: CheckStatus
    detail: str
    ms: float | None = None

    def fields(self) -> dict[str, Any]:
        """Return it as a row."""
        return {
            "verdict": str(self.verdict),
            "check": self.check,
            "detail": self.detail,
            "ms": None if self.ms is None else round(self.ms, 1),
        }


_EXITS: Final = (
    (CheckStatus.FAIL, CheckExit.CRITICAL),
    (CheckStatus.WARN, CheckExit.WARNING),
    (CheckStatus.UNKNOWN, CheckExit.UNKNOWN),
)


def exit_of(verdicts: Iterable[CheckStatus]) -> CheckExit:
    """Return the exit code of the worst of `verdicts`. A known failure outweighs one that is not known."""
    given = frozenset(verdicts)
    return next((code for verdict, code in _EXITS if verdict in given), CheckExit.OK)
