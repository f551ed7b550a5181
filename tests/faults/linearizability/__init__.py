"""A checker of linearizability: histories of calls by several processes, models of objects, and verdicts."""

from tests.faults.linearizability.limits import Limits
from tests.faults.linearizability.model import REFUSED, Model, Refused
from tests.faults.linearizability.operations import NOT_APPLIED, UNKNOWN, Operation, Unanswered
from tests.faults.linearizability.partition import by_key, check
from tests.faults.linearizability.verdict import NotLinearizableError, Refusal, Report, UndecidedError, Verdict

__all__ = [
    "NOT_APPLIED",
    "REFUSED",
    "UNKNOWN",
    "Limits",
    "Model",
    "NotLinearizableError",
    "Operation",
    "Refusal",
    "Refused",
    "Report",
    "Unanswered",
    "UndecidedError",
    "Verdict",
    "by_key",
    "check",
]
