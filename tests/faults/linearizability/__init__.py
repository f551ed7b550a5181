"""A checker of linearizability: histories of calls by several processes, models of objects, and verdicts."""

from tests.faults.linearizability.support.limits import Limits
from tests.faults.linearizability.support.model import REFUSED, Model, Refused
from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Operation, Unanswered
from tests.faults.linearizability.support.partition import by_key, check
from tests.faults.linearizability.support.verdict import NotLinearizableError, Refusal, Report, UndecidedError, Verdict

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
