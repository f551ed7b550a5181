"""Policies: what becomes of a row whose record the store holds already.

Spark runs a task at least once: again after a failure, and with speculation twice at the same time. So each policy is
a compare-and-set of one row, with a condition that was fixed before the job began. A task that finds its own content in
the store counts the row as done before. A policy never reads the store to choose a condition. A task that runs again
would then choose one that overwrites what a hub wrote in between.

This holds for rows in files, as those of all jobs are. A frame may also read the same store in which it replaces
records. A task that runs again then reads versions that it has written itself, and may apply a change twice.

No condition can detect that a record is missing because a hub deleted it. A task may write a row by CREATE, and run
again after a hub has deleted the record. Then it creates the row a second time. REPLACE does not, since the version of
the row is gone for good. OVERWRITE is for stores without hubs.
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

__all__ = ["Policy", "WriteResult", "condition", "judge"]


class Policy(enum.StrEnum):
    """How rows are written."""

    CREATE = "create"
    """Write only where no record exists. A record that exists stays as it is."""
    REPLACE = "replace"
    """Write only where the record is still at the version in the row's column `version`."""
    OVERWRITE = "overwrite"
    """Write in any case. Allowed only into an empty target, with all hubs stopped and without speculation."""


class WriteResult(enum.StrEnum):
    """What became of a row. Each row has exactly one result, so the counts add up to the number of rows."""

    CREATED = "created"
    SAME = "same"
    """The store holds this record already, from an earlier attempt or from elsewhere."""
    REPLACED = "replaced"
    SUPERSEDED = "superseded"
    """The record was changed since the row was read; it stays as it is."""
    CONFLICT = "conflict"
    """Another record exists under the key, or none where one was to be replaced. Nothing was written."""
    FAILED = "failed"
    """The row is no record that can be stored, or the record in the store cannot be read. Nothing was written."""


def condition(policy: Policy, row: InputRow) -> Version:
    """Return the version to write a row at. Raises InvalidArgumentError - the row has none, and REPLACE needs one."""
    match policy:
        case Policy.CREATE:
            return NEW
        case Policy.OVERWRITE:
            return ANY
        case Policy.REPLACE:
            if row.version is None or row.version in (NEW, ANY) or not row.version.raw:
                raise InvalidArgumentError(
                    f"the {row.key} has no version in its column 'version', by which alone it can be replaced. "
                    "Read it from the store that it is written to"
                )
            return row.version


def judge(table: Table, policy: Policy, row: InputRow, outcome: Outcome[Any]) -> WriteResult | UncertainStateError:
    """Return the result of a write, or the error that says that the same write must be tried again to learn it.

    A refusal carries the current record. So if an answer was lost, the refusal of the next try shows whether the store
    holds what was written.

    Raises: MetadataUnavailableError - the row was surely not written, and the row is not the reason.
    """
    match outcome.error:
        case None:
            return WriteResult.CREATED if policy is Policy.CREATE else WriteResult.REPLACED
        case BadVersionError(current=current):
            # A row of `topics` says only that a topic exists.
            if table is Table.TOPICS or (current is not None and current.value == row.record):
                return WriteResult.SAME
            return WriteResult.SUPERSEDED if policy is Policy.REPLACE else WriteResult.CONFLICT
        case NoRecordError():
            return WriteResult.CONFLICT
        case UncertainStateError() as error:
            return error
        case MetadataUnavailableError() as error:
            raise error
        case _:
            return WriteResult.FAILED
