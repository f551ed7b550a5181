"""For every kind of exception of a region server, the driver learns where to look next, or that it must wait.

The exceptions replace a real server's answers to reads, alone and in batches.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import pytest

from hedwig.metadata.hbase.driver import ConditionalPut, Row
from hedwig.metadata.hbase.native.hbase_pb2 import ExceptionResponse
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from tests.metadata.hbase.native.conftest import Doors, Namespace, soon
from tests.metadata.hbase.native.support.rewriter import FailingServer

COLUMNS: Final = (b"o:v",)
COMPANY: Final = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """An exception, and whether the next call for the row must ask hbase:meta for its region."""

    java_class: str
    asks_anew: bool
    text: str = "for a test"
    for_good: bool = False
    known: bool = True


KINDS: Final = [
    Kind("NotServingRegionException", asks_anew=True),
    Kind("exceptions.RegionMovedException", asks_anew=True, text="Region moved"),
    Kind("WrongRegionException", asks_anew=True, for_good=True),
    Kind("exceptions.FailedSanityCheckException", asks_anew=True, text="Requested row out of range", for_good=True),
    Kind("regionserver.RegionServerStoppedException", asks_anew=True),
    Kind("regionserver.RegionServerAbortedException", asks_anew=True),
    Kind("ipc.ServerNotRunningYetException", asks_anew=True),
    Kind("exceptions.RegionOpeningException", asks_anew=False),
    Kind("CallQueueTooBigException", asks_anew=False),
    Kind("CallDroppedException", asks_anew=False),
    Kind("quotas.RpcThrottlingException", asks_anew=False),
    Kind("RegionTooBusyException", asks_anew=False),
    Kind("SomeIOException", asks_anew=False, text="Timed out waiting for lock for row"),
    Kind("SomeIOException", asks_anew=False, known=False),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.java_class}-{kind.text}")
async def test_the_next_call_goes_where_the_last_failure_sent_it(
    kind: Kind, namespace: Namespace, doors: Doors
) -> None:
    host, _, port = namespace.region_server.rpartition(":")
    row = b"0000learnt"
    put = ConditionalPut(
        table=namespace.table,
        row=row,
        column=b"o:v",
        expected=None,
        values={b"o:v": b"1"},
        token=b"12345678",
        show=COLUMNS,
    )
    async with FailingServer(Server(host, int(port))) as server:
        driver = await doors.driver(server.route)
        # All reads go to the same region, so most of them share calls.
        await driver.put_if(put, soon())

        async def reads() -> list[object]:
            asked = (driver.get(namespace.table, row, COLUMNS, soon()) for _ in range(COMPANY))
            return await asyncio.gather(*asked, return_exceptions=True)

        assert {type(outcome) for outcome in await reads()} == {Row}
        looks, batches = server.calls["Scan"], server.calls["Multi"]
        assert looks > 0
        server.failure = ExceptionResponse(
            exception_class_name=f"org.apache.hadoop.hbase.{kind.java_class}",
            stack_trace=f"org.apache.hadoop.hbase.{kind.java_class}: {kind.text}\n\tat nowhere",
            do_not_retry=kind.for_good,
        )
        failures = await reads()
        assert {type(failure) for failure in failures} == {NotAppliedError if kind.known else OutcomeUnknownError}
        assert server.calls["Multi"] > batches, "some failed alone, and some in a batch"
        assert server.calls["Scan"] == looks, "a failure alone asks for nothing"
        server.failure = None
        assert {type(outcome) for outcome in await reads()} == {Row}
        assert (server.calls["Scan"] > looks) == kind.asks_anew
