"""Changes that travel together: those of one HBase region, which the server makes in one change, all of them or none.

One by one, and in a batch too, each conditional write costs the server a lock and an entry in its log. The server then
waits until that entry is safe. If a table has HBase's own endpoint for several rows, as hbase:meta has, many writes
cost as much as one. The server locks their rows in the order of the keys and checks all conditions. If these hold, it
applies all of them as one entry of its log. If one does not hold, each is sent by itself, and has the outcome that it
would have had alone.

In a conditional write of one row, the cells get a time no earlier than that of the compared cell. HBase ensures this
even if its clock went back. For several rows it does not, so the cell that a write replaces could hide it. Therefore
the call that makes updates also reads each of their rows afterwards. An update whose row does not show it has an
unknown outcome, and is sent by itself: it was hidden, or another client has replaced it at once. Creations need no
such look, for an absent row has nothing that hides them. The two do not share a call, since creations that are refused
are common, and updates that are refused are not.

If the memory of all its regions together is full, a server slows writes down. It checks this with each write, but not
with those of an endpoint: RSRpcServices.mutate and multi call reclaimMemStoreMemory, and execService does not. The
memory of one region is checked in both cases, by HRegion.batchMutate. So one of `_BRAKE_EVERY` calls is a single
write, which a full server slows down, and behind which the others of its region wait.

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
from hedwig.metadata.hbase.native.actions import Change, condition, delete_of, get_of
from hedwig.metadata.hbase.native.hbase_pb2 import (
    CoprocessorServiceResponse,
    MultiResponse,
    MutateRowsResponse,
    RegionActionResult,
    ResultOrException,
)
from hedwig.metadata.hbase.native.wire.codec import delimited, varint
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Server

__all__ = ["METHOD", "Together", "is_for_good", "probe_of", "request_of", "were_made", "were_updated"]

_log = logging.getLogger(__name__)

METHOD: Final = "ExecService"
"""The name of the call for creations, and for probes."""

_SERVICE: Final = delimited(b"\x12", b"MultiRowMutationService") + delimited(b"\x1a", b"MutateRows")
_STUCK_S: Final = 1.0
"""How long the call of a region may take. After that, other changes of the region no longer wait, and go alone."""
_BRAKE_EVERY: Final = 32
"""Of N calls to one region, one has a single change, which is sent as other writes are."""
_REST_MIN: Final = 100
_REST_MAX: Final = 3200
"""After a call that made nothing, mostly because one of its rows existed, N changes of its kind go alone.

N begins with `_REST_MIN`, and doubles up to `_REST_MAX`.
"""
_NO_ENDPOINT: Final = "UnknownProtocolException"


class _Kind:
    """The changes of one kind that wait for one server, creations or updates, by HBase region."""

    def __init__(self) -> None:
        # Regions get their calls in this order.
        self.waiting: dict[bytes, deque[Change]] = {}
        self.calls: dict[bytes, float] = {}
        """When the call to each region began, if there is one."""
        self._calls_made: dict[bytes, int] = {}
        self._rest = 0
        self._next_rest = _REST_MIN

    def admit(self, change: Change, now: float) -> bool:
        if self._is_stuck(change.region.name, now):
            return False
        if self._rest > 0:
            self._rest -= 1
            return False
        self.waiting.setdefault(change.region.name, deque()).append(change)
        return True

    def take(self, number: int, bytes_max: int, now: float) -> list[Change]:
        for name in [name for name in self.waiting if name not in self.calls]:
            waiting = self.waiting.pop(name)
            self._calls_made[name] = made = self._calls_made.get(name, 0) + 1
            company = _company(waiting, 1 if made % _BRAKE_EVERY == 0 else number, bytes_max)
            if waiting:
                self.waiting[name] = waiting
            if company:
                self.calls[name] = now
                return company
        return []

    def forget(self) -> None:
        """Forget the regions, which the server may not have any more."""
        self._calls_made.clear()

    def came(self, made: bool | Exception) -> None:
        if made is True:
            self._next_rest = _REST_MIN
        elif (made is False or is_for_good(made)) and self._rest == 0:
            self._rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _REST_MAX)

    def late(self, now: float) -> list[Change]:
        names = [name for name in self.waiting if self._is_stuck(name, now)]
        return [change for name in names for change in self.waiting.pop(name)]

    def _is_stuck(self, region: bytes, now: float) -> bool:
        began = self.calls.get(region)
        return began is not None and now - began > _STUCK_S


class Together:
    """Changes that wait for one server, to be sent with others of their region, and the known endpoints of its tables.

    At most one call of creations, and one of updates, is under way to a region. Changes that are submitted meanwhile
    gather for the next.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._creations, self._updates = _Kind(), _Kind()
        self._kinds = deque((self._creations, self._updates))
        self._has_endpoint: dict[str, bool | None] = {}
        self._logged: set[str] = set()

    def __bool__(self) -> bool:
        return any(kind.waiting for kind in self._kinds)

    def admit(self, change: Change, now: float) -> bool:
        """Let a change wait here if it may be sent with others. Return whether it does."""
        if change.mark is None or not self._has_endpoint.get(change.region.table):
            return False
        return self._kind(change).admit(change, now)

    def take(self, number: int, bytes_max: int, now: float) -> list[Change]:
        """Take at most `number` changes of one kind and region, each of another row; fewer if they are large.

        The list is empty if every region with waiting changes has a call under way. When the call for the changes is
        over, the caller must call `over`.
        """
        for _ in range(len(self._kinds)):
            # By turns: neither kind has to wait while the other keeps coming.
            self._kinds.rotate()
            if company := self._kinds[0].take(number, bytes_max, now):
                return company
        return []

    def over(self, first: Change) -> None:
        """Record that the call of the company of `first` is over."""
        del self._kind(first).calls[first.region.name]

    def came(self, first: Change, made: bool | Exception) -> None:
        """Record the outcome of a company that was sent as one change. If it was a refusal, the next ones go alone."""
        self._kind(first).came(made)
        if isinstance(made, ServerFailure) and made.java_class == _NO_ENDPOINT:
            self._has_none(first.region.table, made)

    def late(self, now: float) -> list[Change]:
        """Remove and return the changes that wait for a call that takes too long."""
        return [change for kind in self._kinds for change in kind.late(now)]

    def keep(self, is_kept: Callable[[Change], bool]) -> None:
        """Drop the waiting changes for which `is_kept` is false."""
        for kind in self._kinds:
            kept = {name: deque(filter(is_kept, waiting)) for name, waiting in kind.waiting.items()}
            kind.waiting = {name: waiting for name, waiting in kept.items() if waiting}

    def drain(self) -> list[Change]:
        """Remove and return all waiting changes."""
        drained = []
        for kind in self._kinds:
            waiting, kind.waiting = kind.waiting, {}
            drained += [change for queue in waiting.values() for change in queue]
        return drained

    def _kind(self, change: Change) -> _Kind:
        return self._creations if change.creates else self._updates

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
        for kind in self._kinds:
            kind.forget()

    def _has_none(self, table: str, why: object) -> None:
        self._has_endpoint[table] = False
        if table not in self._logged:
            self._logged.add(table)
            _log.info("%s makes the rows of %s one by one: %s", self._server, table, why)


def request_of(changes: Sequence[Change]) -> tuple[str, bytes]:
    """Return the method and the request that make changes of different rows of one region, all of them or none.

    The request for updates also reads each row, after the changes.
    """
    first = changes[0]
    mutations = [delimited(b"\x0a", change.mutation) for change in changes]
    conditions = [delimited(b"\x2a", change.condition) for change in changes]
    call = delimited(b"\x0a", first.row) + _SERVICE + delimited(b"\x22", b"".join((*mutations, *conditions)))
    if first.creates:
        return METHOD, first.region.encoded + delimited(b"\x12", call)
    # A server carries out the actions of one region in their order.
    actions = [delimited(b"\x1a", b"\x08\x00" + delimited(b"\x22", call))]
    for index, change in enumerate(changes, 1):
        look = delimited(b"\x1a", get_of(change.row, (change.column,)))
        actions.append(delimited(b"\x1a", b"\x08" + varint(index) + look))
    return "Multi", delimited(b"\x0a", first.region.encoded + b"".join(actions))


def probe_of(change: Change) -> bytes:
    """Return a request whose answer shows whether a server heeds conditions on several rows of a table.

    Its condition cannot hold. A server that applied the change all the same would change nothing by it.
    """
    mutation = delete_of(change.row, {change.column: LONG_AGO_MS})
    probe = Change(change.region, change.row, change.column, None, mutation, change.expires_at)
    probe.condition = condition(change.row, change.column, secrets.token_bytes(32))
    return request_of((probe,))[1]


def were_made(body: bytes) -> bool | None:
    """Return whether the conditions of creations held; None if the server does not say.

    Raises: DecodeError - the answer cannot be read.
    """
    return _held(CoprocessorServiceResponse.FromString(body).value.value)


def were_updated(changes: Sequence[Change], body: bytes) -> list[bool] | bool | None:
    """Return for each update whether its row shows it; False if a condition did not hold; None if it is not said.

    Raises: DecodeError - the answer cannot be read; ServerFailure - of the whole call.
    """
    region = next(iter(MultiResponse.FromString(body).region_action_result), RegionActionResult())
    if region.HasField("exception"):
        raise ServerFailure.of_action(region.exception)
    results = {result.index: result for result in region.result_or_exception}
    call = results.get(0, ResultOrException())
    if call.HasField("exception"):
        raise ServerFailure.of_action(call.exception)
    if not call.HasField("service_result"):
        return None
    if not (held := _held(call.service_result.value.value)):
        return held
    shown = []
    for index, change in enumerate(changes, 1):
        look = results.get(index)
        shown.append(look is not None and [cell.value for cell in look.result.cell] == [change.mark])
    return shown


def _held(answer: bytes) -> bool | None:
    answered = MutateRowsResponse.FromString(answer)
    return answered.processed if answered.HasField("processed") else None


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
        # With two changes of the same row in one call, both conditions would hold. Then both callers would believe
        # that they wrote the row.
        if company and (size > bytes_max or change.row in rows):
            break
        waiting.popleft()
        if not change.outcome.done():
            company.append(change)
            rows.add(change.row)
    return company
