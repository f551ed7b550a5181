"""Policies: what becomes of a row whose record the store holds already.

Spark runs a task at least once: again after a failure, and with speculation twice at the same time. So each policy is
a compare-and-set of the row alone, whose condition was fixed before the job began, and whoever finds his own content in
the store counts the row as done before. A policy never looks at the store to choose a condition: a task that ran again
would choose one that overwrites what a hub wrote in between.

Rows are in files then, as those of all jobs are. A frame that reads the very store in which it replaces records is read
anew by a task that runs again, with the versions that it has itself written: what it says of a change may come twice.

What no condition can tell is that a record is not there because a hub has deleted it since. Where a task wrote a row by
CREATE, a hub deleted the record, and then the task ran again, the row is created a second time. REPLACE does no such
thing, since the version of the row is gone for good, and OVERWRITE is for stores without hubs.
"""

import enum
from typing import Any

from hedwig.errors import (
    BadVersionError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoRecordError,
    UncertainStateError,
)
from hedwig.metadata import Outcome
from hedwig.pipeline.frames.input_rows import InputRow
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import ANY, NEW, Version

__all__ = ["Policy", "Result", "condition", "judge"]


class Policy(enum.StrEnum):
    """How rows are written."""

    CREATE = "create"
    """Only where no record is. What is there already stays, whatever it is."""
    REPLACE = "replace"
    """Only where the record is still at the version in the row's column `version`."""
    OVERWRITE = "overwrite"
    """Whatever is there. Only into an empty target, with all hubs stopped and without speculation."""


class Result(enum.StrEnum):
    """What became of a row. Each has exactly one, so their numbers add up to that of the rows."""

    CREATED = "created"
    SAME = "same"
    """The store holds just this: from an earlier attempt, or from elsewhere."""
    REPLACED = "replaced"
    SUPERSEDED = "superseded"
    """The record was changed since the row was read; it stays as it is."""
    CONFLICT = "conflict"
    """There is another record where none was to be, or none where one was to be replaced; nothing was written."""
    FAILED = "failed"
    """The row is no record that can be stored, or what stands in its place cannot be read; nothing was written."""


def condition(policy: Policy, row: InputRow) -> Version:
    """Return the version that a row is written at. Raises InvalidArgumentError - it has none that could be replaced."""
    match policy:
        case Policy.CREATE:
            return NEW
        case Policy.OVERWRITE:
            return ANY
        case Policy.REPLACE:
            if row.version is None or row.version in (NEW, ANY) or not row.version.raw:
                raise InvalidArgumentError(
                    f"the {row.key} has no version in its column 'version', by which alone it can be replaced; "
                    "read it from the store that it is written to"
                )
            return row.version


def judge(table: Table, policy: Policy, row: InputRow, outcome: Outcome[Any]) -> Result | UncertainStateError:
    """Return what a write of a row came to, or that the same write has to be made again to learn that.

    A refusal carries the record that stands there, so whoever lost an answer learns from the next refusal whether the
    store holds what was written.

    Raises: MetadataUnavailableError - surely not written, and not for a reason that lies in the row.
    """
    match outcome.error:
        case None:
            return Result.CREATED if policy is Policy.CREATE else Result.REPLACED
        case BadVersionError(current=current):
            # A row of `topics` says that a topic exists, and nothing of what is in it.
            if table is Table.TOPICS or (current is not None and current.value == row.record):
                return Result.SAME
            return Result.SUPERSEDED if policy is Policy.REPLACE else Result.CONFLICT
        case NoRecordError():
            return Result.CONFLICT
        case UncertainStateError() as error:
            return error
        case MetadataUnavailableError() as error:
            raise error
        case _:
            return Result.FAILED
