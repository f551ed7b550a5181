"""Batching: the single actions of many callers go to one region server in few calls.

- If no call is under way, an action is sent at once.
- While fewer calls than `Gathering.calls` are under way, each further action has a call of its own. It is sent at the
  end of the turn of the event loop in which it was submitted.
- Actions beyond these calls, and those submitted while all calls are under way, share calls evenly.

A batch costs a server, and a client, several times less for each action than single calls do. But the server runs the
actions of a batch one after the other, and each waits for the last.

Puts beyond these calls, in a table that has the endpoint for them, gather by HBase region instead. The server makes all
puts of one such call in one change, or none (`together.py`). If it made none, each is sent by itself as any other
action. Its outcome is the same as if it had been sent so at first.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError

from hedwig.clock import Clock, Deadline
from hedwig.errors import HedwigError
from hedwig.metadata.hbase.native.actions import Action, Change, condition
from hedwig.metadata.hbase.native.cluster.links import Link
from hedwig.metadata.hbase.native.cluster.together import (
    METHOD,
    Together,
    is_for_good,
    probe_of,
    request_of,
    were_made,
    were_updated,
)
from hedwig.metadata.hbase.native.hbase_pb2 import (
    DELETE_ONE_VERSION,
    ColumnValue,
    MultiResponse,
    MutationProto,
    QualifierValue,
    RegionActionResult,
)
from hedwig.metadata.hbase.native.wire.codec import delimited
from hedwig.metadata.hbase.native.wire.connection import Connection, Done
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError

__all__ = ["GATHERING", "Batcher", "Gathering", "tell"]

_log = logging.getLogger(__name__)

_DONE: Final = bytes.fromhex("0a 06 0a 02 08 00 18 01")
_NO_STATISTICS: Final = bytes.fromhex("1a 00")
"""The parts of an answer to a batch of which every change was applied: `_DONE` for each, then `_NO_STATISTICS`."""

_COMPANY_BYTES: Final = 1 << 20
_TOGETHER_MIN: Final = 16
_CONNECT_S: Final = 10.0
_LATE_S: Final = 0.05
"""An action that waits, or is in a batch, may outlast its deadline by this time, so it needs no timer of its own."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """How actions share calls: at most `calls` calls are under way at once, each of at most `company` actions.

    The defaults are measured (docs/explanation/benchmarks.md). With 256 callers, 32 calls and more cost the client a
    third more processor time than 8 or 16 do, and the server no less. The actions of a batch wait for the server's log
    one after the other. So where the log is slow, 16 calls lose less than 8.
    """

    calls: int = 16
    company: int = 100


GATHERING: Final = Gathering()


class Batcher:
    """The batches of one region server. `in_flight_max` bounds how many actions are under way at once."""

    def __init__(self, link: Link, clock: Clock, in_flight_max: int, gathering: Gathering) -> None:
        self._link = link
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._calls_max = min(gathering.calls, in_flight_max)
        self._company_max = min(gathering.company, max(1, in_flight_max // self._calls_max))
        # The other calls are reserved for other actions. Else these would not get a turn while puts keep coming.
        self._together_max = max(1, self._calls_max * 3 // 4)
        # With small batches, the puts of one region would only wait for each other.
        self._may_be_together = self._company_max >= _TOGETHER_MIN
        self._waiting: deque[Action] = deque()
        self._together = Together(link.server)
        self._calls = 0
        self._under_way = 0
        """How many actions the calls carry."""
        self._calls_together = 0
        self._met: Connection | None = None
        self._scheduled = False
        self._connecting: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._knows_batches: bool | None = None
        self._probing = False

    def submit(self, action: Action) -> None:
        """Send an action. Its `outcome` receives the result.

        The outcome raises ServerFailure, NotAppliedError, OutcomeUnknownError, AbortedError; LocalProtocolError - it is
        too large; MetadataError - the server is too old.
        """
        self.submit_all((action,))

    def submit_all(self, actions: Sequence[Action]) -> None:
        """Send actions, each as `submit` does; they leave together."""
        now, others = self._loop.time(), self._under_way + len(self._waiting)
        for number, action in enumerate(actions, others):
            # While each action can have a call of its own, gathering gains nothing.
            is_crowded = bool(self._together) or number >= self._calls_max or len(actions) > self._calls_max
            if not (is_crowded and isinstance(action, Change) and self._together.admit(action, now)):
                self._waiting.append(action)
        if self._scheduled:
            return
        if self._calls == 0:
            self._depart()
        else:
            self._scheduled = True
            self._loop.call_soon(self._depart)

    async def close(self) -> None:
        """Abort the waiting actions. May be called twice."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._fail_waiting(lambda: AbortedError("the store was closed", sent=False))

    def _depart(self) -> None:
        self._scheduled = False
        connection = self._link.connection
        if connection is None or connection.ended is not None:
            if (self._waiting or self._together) and self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())
                self._connecting.add_done_callback(self._connected)
            self._watch()
            return
        if connection is not self._met:
            self._meet(connection)
        while self._calls < self._calls_max and self._calls_together < self._together_max:
            puts = self._together.take(self._company_max, _COMPANY_BYTES, self._loop.time())
            if not puts:
                break
            self._send_together(connection, puts)
        while self._waiting and self._calls < self._calls_max:
            free = self._calls_max - self._calls
            share = min(-(-len(self._waiting) // free), self._company_max)
            company = self._take(share if self._knows_batches else 1)
            if company:
                self._send_batch(connection, company)
        connection.flush()
        self._watch()

    def _meet(self, connection: Connection) -> None:
        self._met = connection
        self._together.forget()
        self._waiting.extend(self._together.drain())

    def _depart_soon(self) -> None:
        if (self._waiting or self._together) and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._depart)

    def _take(self, number: int) -> list[Action]:
        """Take at most `number` of the waiting actions, fewer if they are large. A very large action goes alone."""
        company: list[Action] = []
        size = 0
        while self._waiting and len(company) < number:
            action = self._waiting[0]
            size += _weight(action)
            if company and size > _COMPANY_BYTES:
                break
            self._waiting.popleft()
            if not action.outcome.done():
                company.append(action)
        return company

    def _send_batch(self, connection: Connection, company: Sequence[Action]) -> None:
        self._send(connection, company, *_call_of(company), partial(self._tell, company))
        first = company[0]
        if isinstance(first, Change):
            if self._knows_batches is None and not self._probing:
                self._probe_batches(connection, first)
            # A caller that writes records one after the other does not need the endpoint.
            if first.mark is not None and self._may_be_together and (self._waiting or len(company) > 1):
                self._probe_together(connection, first)

    def _send_together(self, connection: Connection, company: Sequence[Change]) -> None:
        first = company[0]
        are_together = len(company) > 1

        def tell_all(result: bytes | Exception) -> None:
            self._calls_together -= 1
            self._together.over(first)
            if are_together:
                made = self._were_made(company, result)
                # Where one was hidden, the next ones go alone, which nothing can hide.
                self._together.came(first, all(made) if isinstance(made, list) else made)
                self._tell_together(company, made)
            else:
                self._tell(company, result)

        self._calls_together += 1
        call = request_of(company) if are_together else _call_of(company)
        self._send(connection, company, *call, tell_all)

    def _send(
        self, connection: Connection, company: Sequence[Action], method: str, request: bytes, tell_all: Done
    ) -> None:
        now = self._loop.time()
        expires_at = max(action.expires_at for action in company)
        timers = [
            self._loop.call_at(action.expires_at, _give_up, action, self._link.server)
            for action in company
            if action.expires_at < expires_at - _LATE_S
        ]

        def arrive(result: bytes | Exception) -> None:
            for timer in timers:
                timer.cancel()
            self._calls -= 1
            self._under_way -= len(company)
            tell_all(result)
            self._depart_soon()

        self._calls += 1
        self._under_way += len(company)
        try:
            connection.send(method, request, max(expires_at - now, 0.0), arrive, held=True)
        except (HedwigError, NotAppliedError, AbortedError) as exc:
            arrive(exc)

    def _tell(self, company: Sequence[Action], result: bytes | Exception) -> None:
        if isinstance(result, bytes):
            try:
                tell(company, result)
            except (DecodeError, IndexError) as exc:
                result = self._unread(exc)
        if isinstance(result, Exception):
            for action in company:
                _fail(action, result)

    def _were_made(self, company: Sequence[Change], result: bytes | Exception) -> list[bool] | bool | Exception:
        if isinstance(result, Exception):
            return result
        try:
            made = were_made(result) if company[0].creates else were_updated(company, result)
        except DecodeError as exc:
            return self._unread(exc)
        except ServerFailure as failure:
            return failure
        return self._unread("it does not say what was done") if made is None else made

    def _tell_together(self, company: Sequence[Change], made: list[bool] | bool | Exception) -> None:
        if isinstance(made, list):
            for action, is_shown in zip(company, made, strict=True):
                if is_shown:
                    _settle(action, True)
                else:
                    _fail(action, OutcomeUnknownError(f"{self._link.server} did it, and does not show it"))
        elif made is True:
            for action in company:
                _settle(action, True)
        elif made is False or is_for_good(made):
            # None was made. Send each by itself; it then fails with its own reason, or is made after all.
            self._waiting.extend(company)
        else:
            for action in company:
                _fail(action, made)

    def _unread(self, why: object) -> OutcomeUnknownError:
        return OutcomeUnknownError(f"the answer of {self._link.server} cannot be read: {why}")

    # Probes, which ask a server whether actions can be sent to it together.

    def _probe_together(self, connection: Connection, change: Change) -> None:
        table = change.region.table
        if not self._together.is_unknown(table):
            return

        def answered(result: bytes | Exception) -> None:
            if connection is self._met:
                self._together.answered(table, result)

        self._together.asked(table)
        timeout_s = max(change.expires_at - self._loop.time(), 0.0)
        connection.send(METHOD, probe_of(change), timeout_s, answered, held=True)

    def _probe_batches(self, connection: Connection, change: Change) -> None:
        """Find out whether the server heeds the conditions of a batch. A server before 2.4.0 would write regardless.

        The condition of the probe cannot hold. A server that runs the change all the same changes nothing by it, since
        it deletes a version at the beginning of time.
        """
        family, _, qualifier = change.column.partition(b":")
        cell = QualifierValue(qualifier=qualifier, timestamp=1, delete_type=DELETE_ONE_VERSION)
        delete = MutationProto(
            row=change.row,
            mutate_type=MutationProto.DELETE_CELLS,
            column_value=[ColumnValue(family=family, qualifier_value=[cell])],
        )
        probe = Change(change.region, change.row, change.column, b"", delete.SerializeToString(), change.expires_at)
        probe.condition = condition(change.row, change.column, secrets.token_bytes(32))
        self._probing = True
        timeout_s = change.expires_at - self._loop.time()
        connection.send("Multi", delimited(b"\x0a", probe.part()), timeout_s, self._probed, held=True)

    def _probed(self, result: bytes | Exception) -> None:
        self._probing = False
        if isinstance(result, Exception):
            return
        (answer,) = MultiResponse.FromString(result).region_action_result or (RegionActionResult(),)
        if answer.HasField("exception"):
            return
        self._knows_batches = answer.HasField("processed")
        if not self._knows_batches:
            _log.warning("%s is too old for batches of conditional writes; each goes alone", self._link.server)

    # Connecting, and the deadlines of waiting actions.

    async def _connect(self) -> None:
        try:
            await self._link.connect(Deadline.after(self._clock, _CONNECT_S))
        except NotAppliedError as exc:
            text = str(exc)
            self._fail_waiting(lambda: NotAppliedError(text))
        except AbortedError as exc:
            text = str(exc)
            self._fail_waiting(lambda: AbortedError(text, sent=False))

    def _connected(self, _: "asyncio.Task[None]") -> None:
        self._connecting = None
        if self._waiting or self._together:
            self._depart()

    def _fail_waiting(self, error: Any) -> None:
        waiting, self._waiting = [*self._waiting, *self._together.drain()], deque()
        for action in waiting:
            _fail(action, error())

    def _watch(self) -> None:
        """Start the timer that fails waiting actions after their deadlines."""
        if (self._waiting or self._together) and self._sweeper is None:
            self._sweeper = self._loop.call_later(_LATE_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()

        def may_wait(action: Action) -> bool:
            is_late = action.expires_at <= now
            if is_late:
                _fail(action, NotAppliedError(f"{self._link.server} has too much to do, or cannot be reached"))
            return not is_late and not action.outcome.done()

        self._together.keep(may_wait)
        if late := self._together.late(now):
            self._waiting.extend(late)
            self._depart_soon()
        self._waiting = deque(filter(may_wait, self._waiting))
        self._watch()


def _call_of(company: Sequence[Action]) -> tuple[str, bytes]:
    """Return the method and the request that run actions, of which each may fail by itself."""
    if len(company) == 1:
        return company[0].method, company[0].request()
    return "Multi", b"".join([delimited(b"\x0a", action.part()) for action in company])


def tell(company: Sequence[Action], body: bytes) -> None:
    """Give each action its part of an answer."""
    if len(company) == 1:
        (single,) = company
        _settle(single, single.answer(body))
        return
    if body == _DONE * len(company) + _NO_STATISTICS and all(isinstance(action, Change) for action in company):
        for action in company:
            _settle(action, True)
        return
    results = MultiResponse.FromString(body).region_action_result
    if len(results) != len(company):
        raise IndexError(f"{len(results)} results for {len(company)} actions")
    for action, result in zip(company, results, strict=True):
        try:
            _settle(action, action.part_answer(result))
        except (ServerFailure, HedwigError, OutcomeUnknownError) as exc:
            _fail(action, exc)


def _settle(action: Action, outcome: Any) -> None:
    if not action.outcome.done():
        action.outcome.set_result(outcome)


def _fail(action: Action, error: Exception) -> None:
    if not action.outcome.done():
        action.outcome.set_exception(error)
        action.outcome.exception()  # A caller that is cancelled at this moment does not retrieve it.


def _give_up(action: Action, server: Server) -> None:
    _fail(action, OutcomeUnknownError(f"{server} did not answer in time"))


def _weight(action: Action) -> int:
    return len(action.mutation) if isinstance(action, Change) else 64
