"""Creations: rows of one HBase region that the server creates in one change, all of them or none.

One by one, and in a batch too, each creation costs the server a lock and an entry in its log. The server then waits
until that entry is safe. If a table has HBase's own endpoint for several rows, as hbase:meta has, many creations cost
as much as one. The server locks their rows in the order of the keys and checks all conditions. If these hold, it
applies all creations as one entry of its log.

Only creations are sent so, for two reasons:

- In a conditional write of one row, the cells get a time no earlier than that of the compared cell. HBase ensures this
  even if its clock went back. For several rows it does not, so an overwritten record could hide the write over it. An
  absent row has nothing that hides the write.
- Creations of new names do not refuse each other. Among other writes, one consume pointer that moved meanwhile would
  refuse all writes of the call.

If the memory of all its regions together is full, a server slows writes down. It checks this with each write, but not
with those of an endpoint: RSRpcServices.mutate and multi call reclaimMemStoreMemory, and execService does not. The
memory of one region is checked in both cases, by HRegion.batchMutate. So one of `_BRAKE_EVERY` calls sends its
creations as other writes, which a full server slows down.

Source: HBase 2.6, MultiRowMutationEndpoint, HRegion, RSRpcServices; HBASE-14054.
"""

import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from google.protobuf.message import DecodeError

from hedwig.metadata.hbase.driver import LONG_AGO_MS
from hedwig.metadata.hbase.native.actions import Change, condition, delete_of
from hedwig.metadata.hbase.native.hbase_pb2 import CoprocessorServiceResponse, MutateRowsResponse
from hedwig.metadata.hbase.native.wire.codec import delimited
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region, Server

__all__ = ["METHOD", "Creations", "is_for_good", "probe_of", "request_of", "were_made"]

_log = logging.getLogger(__name__)

METHOD: Final = "ExecService"
"""The name of the call for creations."""

_SERVICE: Final = delimited(b"\x12", b"MultiRowMutationService") + delimited(b"\x1a", b"MutateRows")
_STUCK_S: Final = 1.0
"""How long the call of a region may take. After that, other creations of the region no longer wait, and go alone."""
_BRAKE_EVERY: Final = 32
"""Of N calls to one region with several creations, one is sent as other writes are."""
_REST_MIN: Final = 100
_REST_MAX: Final = 3200
"""After a call that made nothing, mostly because one of its rows existed, N creations go alone.

N begins with `_REST_MIN`, and doubles up to `_REST_MAX`.
"""
_NO_ENDPOINT: Final = "UnknownProtocolException"


class Creations:
    """Creations that wait for one server, by HBase region, and the known endpoints of its tables.

    At most one call of creations is under way to a region. Creations that are submitted meanwhile gather for the next.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # Regions get their calls in this order.
        self._waiting: dict[bytes, deque[Change]] = {}
        self._calls: dict[bytes, float] = {}
        """When the call to each region began, if there is one."""
        self._calls_made: dict[bytes, int] = {}
        self._has_endpoint: dict[str, bool | None] = {}
        self._logged: set[str] = set()
        self._rest = 0
        self._next_rest = _REST_MIN

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def admit(self, change: Change, now: float) -> bool:
        """Let a change wait here if it may be sent with others. Return whether it does."""
        if not change.creates or not self._has_endpoint.get(change.region.table):
            return False
        if self._is_stuck(change.region.name, now):
            return False
        if self._rest > 0:
            self._rest -= 1
            return False
        self._waiting.setdefault(change.region.name, deque()).append(change)
        return True

    def take(self, number: int, bytes_max: int, now: float) -> list[Change]:
        """Take at most `number` creations of different rows of one region, fewer if they are large.

        The list is empty if every region with waiting creations has a call under way. When the call for the creations
        is over, the caller must call `over`.
        """
        for name in [name for name in self._waiting if name not in self._calls]:
            waiting = self._waiting.pop(name)
            company = _company(waiting, number, bytes_max)
            if waiting:
                self._waiting[name] = waiting
            if company:
                self._calls[name] = now
                return company
        return []

    def are_together(self, company: Sequence[Change]) -> bool:
        """Say whether to make the taken creations in one change. Else they are sent as other writes are."""
        if len(company) == 1:
            return False
        name = company[0].region.name
        self._calls_made[name] = made = self._calls_made.get(name, 0) + 1
        return made % _BRAKE_EVERY != 0

    def over(self, region: Region) -> None:
        """Record that the call to a region is over."""
        del self._calls[region.name]

    def came(self, region: Region, made: bool | Exception) -> None:
        """Record the outcome of creations sent as one change. If it was a refusal, the next creations go alone."""
        if made is True:
            self._next_rest = _REST_MIN
        elif (made is False or is_for_good(made)) and self._rest == 0:
            self._rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _REST_MAX)
        if isinstance(made, ServerFailure) and made.java_class == _NO_ENDPOINT:
            self._has_none(region.table, made)

    def late(self, now: float) -> list[Change]:
        """Remove and return the creations that wait for a call that takes too long."""
        names = [name for name in self._waiting if self._is_stuck(name, now)]
        return [change for name in names for change in self._waiting.pop(name)]

    def _is_stuck(self, region: bytes, now: float) -> bool:
        began = self._calls.get(region)
        return began is not None and now - began > _STUCK_S

    def keep(self, is_kept: Callable[[Change], bool]) -> None:
        """Drop the waiting creations for which `is_kept` is false."""
        kept = {name: deque(filter(is_kept, waiting)) for name, waiting in self._waiting.items()}
        self._waiting = {name: waiting for name, waiting in kept.items() if waiting}

    def drain(self) -> list[Change]:
        """Remove and return all waiting creations."""
        waiting, self._waiting = self._waiting, {}
        return [change for queue in waiting.values() for change in queue]

    # The endpoints of tables.

    def is_unknown(self, table: str) -> bool:
        """Say whether it is unknown if a table has the endpoint, and no probe was sent."""
        return table not in self._has_endpoint

    def asked(self, table: str) -> None:
        """Record that a probe of a table (`probe_of`) was sent."""
        self._has_endpoint[table] = None

    def answered(self, table: str, answer: bytes | Exception) -> None:
        """Record the answer to a probe (`probe_of`)."""
        if isinstance(answer, Exception):
            if is_for_good(answer):
                self._has_none(table, answer)
            else:
                del self._has_endpoint[table]
            return
        with suppress(DecodeError):
            # Servers before 2.4.5 do not say whether the conditions held. Those before 2.4.3 would apply all changes.
            if were_made(answer) is False:
                self._has_endpoint[table] = True
                return
        self._has_none(table, "it does not say whether conditions on several rows hold")

    def forget(self) -> None:
        """Forget the endpoints of all tables. The server may be another one now, or its tables may have changed."""
        self._has_endpoint.clear()
        self._calls_made.clear()

    def _has_none(self, table: str, why: object) -> None:
        self._has_endpoint[table] = False
        if table not in self._logged:
            self._logged.add(table)
            _log.info("%s makes the rows of %s one by one: %s", self._server, table, why)


def request_of(changes: Sequence[Change]) -> bytes:
    """Return the request that applies changes of different rows of one region, all of them or none."""
    first = changes[0]
    mutations = [delimited(b"\x0a", change.mutation) for change in changes]
    conditions = [delimited(b"\x2a", change.condition) for change in changes]
    call = delimited(b"\x0a", first.row) + _SERVICE + delimited(b"\x22", b"".join((*mutations, *conditions)))
    return first.region.encoded + delimited(b"\x12", call)


def probe_of(change: Change) -> bytes:
    """Return a request whose answer shows whether a server heeds conditions on several rows of a table.

    Its condition cannot hold. A server that applied the change all the same would change nothing by it.
    """
    mutation = delete_of(change.row, {change.column: LONG_AGO_MS})
    probe = Change(change.region, change.row, change.column, None, mutation, change.expires_at)
    probe.condition = condition(change.row, change.column, secrets.token_bytes(32))
    return request_of((probe,))


def were_made(body: bytes) -> bool | None:
    """Return whether the conditions held; None if the server does not say.

    Raises: DecodeError - the answer cannot be read.
    """
    answer = MutateRowsResponse.FromString(CoprocessorServiceResponse.FromString(body).value.value)
    return answer.processed if answer.HasField("processed") else None


def is_for_good(failure: bool | Exception) -> bool:
    """Say whether a failed call surely had no effect, and may have failed because of its form."""
    return isinstance(failure, ServerFailure) and failure.meaning in (Meaning.REFUSED, Meaning.FORBIDDEN)


def _company(waiting: "deque[Change]", number: int, bytes_max: int) -> list[Change]:
    """Take at most `number` changes of different rows from the front, fewer if they are large."""
    company: list[Change] = []
    rows: set[bytes] = set()
    size = 0
    while waiting and len(company) < number:
        change = waiting[0]
        size += len(change.mutation)
        # With two creations of the same row in one call, both conditions would hold. Then both callers would believe
        # that they created the row.
        if company and (size > bytes_max or change.row in rows):
            break
        waiting.popleft()
        if not change.outcome.done():
            company.append(change)
            rows.add(change.row)
    return company
