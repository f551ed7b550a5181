"""Creations: rows of one HBase region that come into being in one change, all of them or none.

One by one, and in a batch too, each costs the server a lock, an entry in its log and a wait until that is safe. Where a
table has HBase's own endpoint for several rows, as hbase:meta has, many cost what one does: the server locks their rows
in the order of the keys, looks at all conditions and, if these hold, carries everything out as one entry of its log.

Only creations travel so. To the cells of a conditional write of one row HBase gives a time that is no earlier than that
of the cell it compared, though its clock went back; of several rows it does not, and a write over a record could be
hidden by what it overwrites. A row that is absent has nothing to hide it. Besides, creations of new names do not refuse
each other, while one consume pointer that moved meanwhile would send all of its company back.

What a server puts its brake on by, when the memory of all its regions together is full, it looks at with each write but
those of an endpoint (RSRpcServices.mutate and multi call reclaimMemStoreMemory, execService does not; of one region's
memory HRegion.batchMutate sees to itself). So now and then creations go as any other writes, and feel it.

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
"""The call that carries creations."""

_SERVICE: Final = delimited(b"\x12", b"MultiRowMutationService") + delimited(b"\x1a", b"MutateRows")
_STUCK_S: Final = 1.0
"""How long the call of a region may take before others of that region wait for it no longer, and go by themselves."""
_BRAKE_EVERY: Final = 32
"""Of so many calls with company to one region, one goes as other writes do."""
_REST_MIN: Final = 100
_REST_MAX: Final = 3200
"""So many creations go by themselves after a call that made nothing: for one of its rows was there, mostly."""
_NO_ENDPOINT: Final = "UnknownProtocolException"


class Creations:
    """Creations that wait for one server, by HBase region, and what is known of the endpoints of its tables.

    One call of creations is under way to a region at once; what comes meanwhile gathers for the next.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # Regions take turns in this order.
        self._waiting: dict[bytes, deque[Change]] = {}
        self._calls: dict[bytes, float] = {}
        """When the call to each region began, if there is one."""
        self._calls_made: dict[bytes, int] = {}
        self._has_endpoint: dict[str, bool | None] = {}
        self._told: set[str] = set()
        self._rest = 0
        self._next_rest = _REST_MIN

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def admit(self, change: Change, now: float) -> bool:
        """Let a change wait here if it may travel with others. Returns: whether it does."""
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
        """Take up to so many creations of different rows of one region, fewer if they are large.

        None where there is no region without a call under way. `over` is to be called when the call is.
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
        """Say whether creations that were taken are to be made in one change, or as other writes for once."""
        if len(company) == 1:
            return False
        name = company[0].region.name
        self._calls_made[name] = made = self._calls_made.get(name, 0) + 1
        return made % _BRAKE_EVERY != 0

    def over(self, region: Region) -> None:
        """Say that the call to a region is over."""
        del self._calls[region.name]

    def came(self, region: Region, made: bool | Exception) -> None:
        """Take what became of creations made in one change; if one was refused, the next ones go by themselves."""
        if made is True:
            self._next_rest = _REST_MIN
        elif (made is False or is_for_good(made)) and self._rest == 0:
            self._rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _REST_MAX)
        if isinstance(made, ServerFailure) and made.java_class == _NO_ENDPOINT:
            self._has_none(region.table, made)

    def late(self, now: float) -> list[Change]:
        """Return those that wait for a call that takes too long, which do so here no longer."""
        names = [name for name in self._waiting if self._is_stuck(name, now)]
        return [change for name in names for change in self._waiting.pop(name)]

    def _is_stuck(self, region: bytes, now: float) -> bool:
        began = self._calls.get(region)
        return began is not None and now - began > _STUCK_S

    def keep(self, is_kept: Callable[[Change], bool]) -> None:
        """Let go of those that wait and are not kept."""
        kept = {name: deque(filter(is_kept, waiting)) for name, waiting in self._waiting.items()}
        self._waiting = {name: waiting for name, waiting in kept.items() if waiting}

    def drain(self) -> list[Change]:
        """Return all that wait, which do so here no longer."""
        waiting, self._waiting = self._waiting, {}
        return [change for queue in waiting.values() for change in queue]

    # What is known of a table.

    def is_unknown(self, table: str) -> bool:
        """Say whether nobody has asked yet if a table has the endpoint."""
        return table not in self._has_endpoint

    def asked(self, table: str) -> None:
        """Say that an answer to `probe_of` is awaited."""
        self._has_endpoint[table] = None

    def answered(self, table: str, answer: bytes | Exception) -> None:
        """Take what came of `probe_of`."""
        if isinstance(answer, Exception):
            if is_for_good(answer):
                self._has_none(table, answer)
            else:
                del self._has_endpoint[table]
            return
        with suppress(DecodeError):
            # Servers before 2.4.5 do not say, and before 2.4.3 they would carry everything out.
            if were_made(answer) is False:
                self._has_endpoint[table] = True
                return
        self._has_none(table, "it does not say whether conditions on several rows hold")

    def forget(self) -> None:
        """Forget what is known of tables: the server may be another one now, and its tables may have been altered."""
        self._has_endpoint.clear()
        self._calls_made.clear()

    def _has_none(self, table: str, why: object) -> None:
        self._has_endpoint[table] = False
        if table not in self._told:
            self._told.add(table)
            _log.info("%s makes the rows of %s one by one: %s", self._server, table, why)


def request_of(changes: Sequence[Change]) -> bytes:
    """Return the request that carries out changes of different rows of one region, all of them or none."""
    first = changes[0]
    mutations = [delimited(b"\x0a", change.mutation) for change in changes]
    conditions = [delimited(b"\x2a", change.condition) for change in changes]
    call = delimited(b"\x0a", first.row) + _SERVICE + delimited(b"\x22", b"".join((*mutations, *conditions)))
    return first.region.encoded + delimited(b"\x12", call)


def probe_of(change: Change) -> bytes:
    """Return a request by which a server tells whether it heeds conditions on several rows of a table.

    They cannot hold, and the change, carried out all the same, would change nothing.
    """
    mutation = delete_of(change.row, {change.column: LONG_AGO_MS})
    probe = Change(change.region, change.row, change.column, None, mutation, change.expires_at)
    probe.condition = condition(change.row, change.column, secrets.token_bytes(32))
    return request_of((probe,))


def were_made(body: bytes) -> bool | None:
    """Return whether the conditions held, None if the server does not say. Raises DecodeError - it cannot be read."""
    answer = MutateRowsResponse.FromString(CoprocessorServiceResponse.FromString(body).value.value)
    return answer.processed if answer.HasField("processed") else None


def is_for_good(failure: bool | Exception) -> bool:
    """Say whether a failure of a call was without effect, and may be due to the way in which it was made."""
    return isinstance(failure, ServerFailure) and failure.meaning in (Meaning.REFUSED, Meaning.FORBIDDEN)


def _company(waiting: "deque[Change]", number: int, bytes_max: int) -> list[Change]:
    """Take up to so many changes of different rows from the front."""
    company: list[Change] = []
    rows: set[bytes] = set()
    size = 0
    while waiting and len(company) < number:
        change = waiting[0]
        size += len(change.mutation)
        # Both conditions on the same row would hold, and both of them be told that they made it.
        if company and (size > bytes_max or change.row in rows):
            break
        waiting.popleft()
        if not change.outcome.done():
            company.append(change)
            rows.add(change.row)
    return company
