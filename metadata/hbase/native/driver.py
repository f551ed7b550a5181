"""The driver for HBase's own RPC.

It sends each conditional write once per attempt, and the server answers with the outcome of that attempt. So it needs
no receipts. HBase's nonces would not help a repeated attempt, since HBase heeds them for increments and appends only.
The tables above this driver decide by the tokens in the version column.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import ConfigurationError, LocalProtocolError, MetadataError
from hedwig.metadata.calls.attempts import Attempts, Refusal
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.hbase.driver import (
    LONG_AGO_MS,
    ConditionalPut,
    Row,
    RowValues,
    ScanRange,
    TableDescription,
    TableSpec,
)
from hedwig.metadata.hbase.durability import Durability
from hedwig.metadata.hbase.native.actions import Action, Change, Look, delete_of, get_of, put_of, stated
from hedwig.metadata.hbase.native.administration import Administration
from hedwig.metadata.hbase.native.cluster.batching import GATHERING, Gathering
from hedwig.metadata.hbase.native.cluster.cluster import Cluster
from hedwig.metadata.hbase.native.cluster.links import Links, Route
from hedwig.metadata.hbase.native.cluster.registry import Registry
from hedwig.metadata.hbase.native.hbase_pb2 import Scan
from hedwig.metadata.hbase.native.scanning import row_of, scan_of, scan_region, values_of
from hedwig.metadata.hbase.native.streams import CellStream
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.identity import Identity
from hedwig.metadata.hbase.native.wire.regions import Region, Server
from hedwig.metadata.hbase.native.wire.tokens import Token
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError

__all__ = ["NativeDriver"]

T = TypeVar("T")

_TRIES: Final = 3
_TRY_MIN_S: Final = 1.0
_FEW_ROWS: Final = 100
_PAUSE_FIRST_S: Final = 0.01
_PAUSE_MAX_S: Final = 1.0
_VERSION_MIN: Final = (2, 4)


class NativeDriver:
    """An HBaseDriver that talks to the region servers themselves."""

    def __init__(
        self,
        make_registry: Callable[[Links], Registry],
        options: StoreOptions,
        *,
        advice: str,
        identity: Identity,
        durability: Durability = Durability.CLUSTER,
        route: Route = lambda server: server,
        gathering: Gathering = GATHERING,
    ) -> None:
        self._options = options
        self._durability = stated(durability)
        # A call without an answer must leave time for another, to the server that has the HBase region by then.
        self._try_s = max(_TRY_MIN_S, options.operation_timeout_s / _TRIES)
        self._cluster = Cluster(make_registry, options.clock, options.in_flight_max, advice, route, gathering, identity)
        self._administration = Administration(self._cluster, options.clock)
        self._loop = asyncio.get_running_loop()

    async def check_version(self) -> None:
        """Refuse a cluster that would ignore the conditions of batched writes.

        Raises: ConfigurationError - it is older than HBase 2.4; MetadataUnavailableError - no master answered.
        """
        version = await Attempts(self._options, "ask for the version of HBase").read(self._administration.version)
        if _numbers(version) < _VERSION_MIN:
            raise ConfigurationError(
                f"HBase {version} ignores the conditions of batched writes; the driver needs 2.4.0 or later "
                "(hbase+thrift:// works with older clusters)"
            )

    async def new_token(self) -> Token:
        """Return a token for the user who has logged in by Kerberos. Raises: MetadataError - HBase gives none."""
        return await Attempts(self._options, "ask for a token").read(self._cluster.new_token)

    async def get(self, table: str, row: bytes, columns: Sequence[bytes], deadline: Deadline) -> Row | None:
        region = self._cluster.known(table, row) or await self._cluster.locate(table, row, deadline)
        stored: Row | None = await self._carry_out(Look(region, get_of(row, columns), self._expiry(deadline)))
        return stored

    async def get_all(
        self, table: str, rows: Sequence[bytes], columns: Sequence[bytes], deadline: Deadline
    ) -> list[Row | Exception | None]:
        try:
            regions = [
                self._cluster.known(table, row) or await self._cluster.locate(table, row, deadline) for row in rows
            ]
        except Exception as exc:
            return [exc] * len(rows)
        looks = [
            Look(region, get_of(row, columns), self._expiry(deadline))
            for region, row in zip(regions, rows, strict=True)
        ]
        return await self._carry_out_all(looks)

    async def put_if(self, put: ConditionalPut, deadline: Deadline) -> Refusal[Row] | None:
        if await self._carry_out(self._change(await self._region_of(put, deadline), put, deadline)):
            return None
        try:
            return Refusal(await self.get(put.table, put.row, put.show, deadline))
        except OutcomeUnknownError as exc:
            raise _unseen(exc) from exc

    async def put_all(
        self, puts: Sequence[ConditionalPut], deadline: Deadline
    ) -> list[Refusal[Row] | Exception | None]:
        try:
            changes = [self._change(await self._region_of(put, deadline), put, deadline) for put in puts]
        except Exception as exc:
            # No put was sent. The caller repeats them one by one, and then only those fail whose region is not found.
            return [exc] * len(puts)
        results = await self._carry_out_all(changes)
        refused = [index for index, result in enumerate(results) if result is False]
        looks = [
            Look(changes[index].region, get_of(puts[index].row, puts[index].show), self._expiry(deadline))
            for index in refused
        ]
        rows = await self._carry_out_all(looks)
        answers: list[Refusal[Row] | Exception | None] = [None if result is True else result for result in results]
        for index, row in zip(refused, rows, strict=True):
            match row:
                case OutcomeUnknownError():
                    answers[index] = _unseen(row)
                case Exception():
                    answers[index] = row
                case _:
                    answers[index] = Refusal(row)
        return answers

    async def delete_if(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes,
        cells: Mapping[bytes, int],
        deadline: Deadline,
    ) -> bool:
        region = self._cluster.known(table, row) or await self._cluster.locate(table, row, deadline)
        done: bool = await self._carry_out(
            Change(region, row, column, expected, delete_of(row, cells) + self._durability, self._expiry(deadline))
        )
        return done

    async def scan(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[Row]:
        return await self._scan(table, rows, limit, deadline, row_of)

    async def scan_values(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[RowValues]:
        return await self._scan(table, rows, limit, deadline, values_of(rows.columns))

    def stream(self, table: str, rows: ScanRange, page_rows: int) -> CellStream:
        return CellStream(self._cluster, self._deadline_of_call, table, rows, page_rows)

    async def _scan(
        self, table: str, rows: ScanRange, limit: int, deadline: Deadline, make: Callable[[Any], T]
    ) -> list[T]:
        items: list[T] = []
        start, pause_s = rows.start, _PAUSE_FIRST_S
        while len(items) < limit and (not rows.stop or start < rows.stop):
            try:
                region = await self._cluster.locate(table, start, deadline)
                items += await self._scan_region(region, rows, start, limit - len(items), deadline, make)
            except (NotAppliedError, OutcomeUnknownError):
                # A caller would begin with the first region again. While regions keep moving it would never end.
                if start == rows.start or pause_s >= deadline.remaining_s():
                    raise
                await self._options.clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
                continue
            if not region.end:
                break
            start, pause_s = region.end, _PAUSE_FIRST_S
        return items

    async def region_starts(self, table: str, deadline: Deadline) -> list[bytes]:
        # This raises LayoutMissingError if there is no such table.
        await self._cluster.locate(table, b"", deadline)
        return [region.start for region in await self._cluster.regions(table, deadline)]

    async def wait_for_writes(self, table: str, column: bytes, deadline: Deadline) -> None:
        regions: list[Region] = []
        start = b""
        while not regions or start:
            region = await self._cluster.locate(table, start, deadline)
            regions.append(region)
            start = region.end
        # Each change goes to the region as it was listed. A region that was opened since then has no earlier writes
        # under way.
        changes = [self._nothing(region, column, deadline) for region in regions]
        for outcome in await asyncio.gather(*map(self._carry_out, changes), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def flush_table(self, table: str, deadline: Deadline) -> None:
        await self._administration.flush_table(table, deadline)

    def _nothing(self, region: Region, column: bytes, deadline: Deadline) -> Change:
        """Return a deletion that HBase runs, but that deletes nothing."""
        row = region.start or b"\x00"
        mutation = delete_of(row, {column: LONG_AGO_MS}) + self._durability
        return Change(region, row, column, None, mutation, self._expiry(deadline))

    async def create_namespace(self, namespace: str, deadline: Deadline) -> None:
        await self._administration.create_namespace(namespace, deadline)

    async def create_table(self, spec: TableSpec, deadline: Deadline) -> None:
        await self._administration.create_table(spec, deadline)

    async def drop_table(self, table: str, deadline: Deadline) -> None:
        await self._administration.drop_table(table, deadline)

    async def table_exists(self, table: str, deadline: Deadline) -> bool:
        return await self._cluster.table_exists(table, deadline)

    async def describe_table(self, table: str, deadline: Deadline) -> TableDescription:
        return await self._administration.describe_table(table, deadline)

    async def describe(self, deadline: Deadline) -> Mapping[str, str]:
        return {
            "access": self._cluster.registry.describe(),
            "HBase cluster": await self._cluster.registry.cluster_id(deadline),
            "HBase version": await self._administration.version(deadline),
        }

    async def close(self) -> None:
        await self._cluster.close()

    async def _scan_region(
        self,
        region: Region,
        rows: ScanRange,
        start: bytes,
        limit: int,
        deadline: Deadline,
        make: Callable[[Any], T],
    ) -> list[T]:
        """Return the first `limit` rows of a range in one region, from `start` on."""
        # A scan with a small limit mostly reads the few rows of a topic. To stream, a server opens each file anew for
        # the scanner, which takes milliseconds. By default it does so once a scan has read about 256 KiB.
        scan = scan_of(rows, start, Scan.PREAD if limit <= _FEW_ROWS else Scan.DEFAULT)
        try:
            connection = await self._cluster.data_connection(region.server, deadline)
            return await scan_region(connection, region, scan, limit, lambda: self._deadline_of_call(deadline), make)
        except ServerFailure as failure:
            self._cluster.failed(region, failure)

    def _deadline_of_call(self, deadline: Deadline) -> Deadline:
        """Return the deadline of one call of an operation that has until `deadline`."""
        return Deadline.after(self._options.clock, min(self._try_s, deadline.remaining_s()))

    async def _region_of(self, put: ConditionalPut, deadline: Deadline) -> Region:
        return self._cluster.known(put.table, put.row) or await self._cluster.locate(put.table, put.row, deadline)

    def _change(self, region: Region, put: ConditionalPut, deadline: Deadline) -> Change:
        mutation = put_of(put.row, put.values) + self._durability
        mark = put.values[put.column]
        return Change(region, put.row, put.column, put.expected, mutation, self._expiry(deadline), mark=mark)

    async def _carry_out(self, action: Action) -> Any:
        """Return the outcome of an action on a row. Raises the failures that the driver seam names."""
        self._cluster.batcher(action.region.server).submit(action)
        return await self._outcome(action)

    async def _carry_out_all(self, actions: Sequence[Action]) -> list[Any]:
        """Return the outcomes of actions, which leave together. The outcome of one that fails is its error."""
        by_server: dict[Server, list[Action]] = {}
        for action in actions:
            by_server.setdefault(action.region.server, []).append(action)
        outcomes: list[Any] = []
        try:
            for server, of_server in by_server.items():
                self._cluster.batcher(server).submit_all(of_server)
            # Wait one after the other, without a task for each. The outcomes of a batch arrive together.
            for action in actions:
                try:
                    outcomes.append(await self._outcome(action))
                except Exception as exc:
                    outcomes.append(exc)
        finally:
            for action in actions:
                action.outcome.cancel()
        return outcomes

    async def _outcome(self, action: Action) -> Any:
        try:
            return await action.outcome
        except ServerFailure as failure:
            self._cluster.failed(action.region, failure)
        except LocalProtocolError as exc:
            raise MetadataError(str(exc)) from exc

    def _expiry(self, deadline: Deadline) -> float:
        return self._loop.time() + min(self._try_s, deadline.remaining_s())


def _unseen(exc: OutcomeUnknownError) -> NotAppliedError:
    """Return the error for a write that was surely refused, if the row that it met is not known."""
    return NotAppliedError(str(exc))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    numbers = []
    for part in version.split("-", 1)[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
