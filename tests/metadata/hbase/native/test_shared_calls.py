"""Callers share a timer and the answers of batches, and each gets its own outcome."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hedwig.metadata.hbase.native.actions import Change, Look, get_of, put_of
from hedwig.metadata.hbase.native.cluster.batching import tell
from hedwig.metadata.hbase.native.cluster.links import DATA
from hedwig.metadata.hbase.native.hbase_pb2 import MultiResponse, NameBytesPair, RegionActionResult, ResultOrException
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Region, Server
from hedwig.outcomes import OutcomeUnknownError
from tests.faults.support.sickbay import heal
from tests.faults.support.waiting import until
from tests.metadata.hbase.native.conftest import Doors, Namespace, soon

REGION = Region(b"ns:table,,1.0123456789abcdef0123456789abcdef.", "ns:table", b"", b"", Server("host", 1))
NO_STATISTICS = b"\x1a\x00"


def change(number: int) -> Change:
    row = b"row-%d" % number
    return Change(REGION, row, b"o:v", None, put_of(row, {b"o:v": b"x"}), 0.0)


def result(outcome: bool | None) -> RegionActionResult:
    """Return a server's result for one change: done, refused, or (None) failed."""
    if outcome is None:
        return RegionActionResult(exception=NameBytesPair(name="NotServingRegionException", value=b"gone"))
    return RegionActionResult(result_or_exception=[ResultOrException(index=0)], processed=outcome)


@given(st.lists(st.sampled_from([True, True, True, False, None]), min_size=2, max_size=20), st.booleans())
def test_each_change_of_a_batch_gets_its_own_outcome(outcomes: list[bool | None], statistics: bool) -> None:
    body = MultiResponse(region_action_result=[result(outcome) for outcome in outcomes]).SerializeToString()

    async def answered() -> list[bool | None]:
        company = [change(number) for number in range(len(outcomes))]
        tell(company, body + NO_STATISTICS if statistics else body)
        return [None if one.outcome.exception() else one.outcome.result() for one in company]

    assert asyncio.run(answered()) == outcomes


def test_done_is_no_answer_to_a_read() -> None:
    body = MultiResponse(region_action_result=[result(True)] * 2).SerializeToString() + NO_STATISTICS

    async def answered() -> object:
        look = Look(REGION, get_of(b"row", (b"o:v",)), 0.0)
        tell([change(0), look], body)
        return look.outcome.result()

    assert asyncio.run(answered()) is None


async def test_a_call_of_little_time_ends_before_those_around_it(namespace: Namespace, doors: Doors) -> None:
    region = (await doors.regions())[0]
    launcher = namespace.servers.launcher
    connection = await Connection.open(region.server, DATA, "tester", lambda _: None)
    request = Look(region, get_of(b"0000row", (b"o:v",)), 0.0).request()
    came: dict[str, bytes | Exception] = {}
    try:
        await connection.ask("Get", request, soon())
        await asyncio.to_thread(launcher.pause, "regionserver-1")
        for name, timeout_s in (("long", 60.0), ("short", 0.6), ("shorter", 0.3), ("longer", 90.0)):
            connection.send("Get", request, timeout_s, lambda answer, name=name: came.update({name: answer}))  # type: ignore[misc]
        await until(lambda: "short" in came, "the end of the calls of little time")
        assert list(came) == ["shorter", "short"]
        assert all(isinstance(answer, OutcomeUnknownError) for answer in came.values())
        await asyncio.to_thread(launcher.resume, "regionserver-1")
        await until(lambda: len(came) == 4, "the answers to the calls of much time")
        assert isinstance(came["long"], bytes)
        assert isinstance(came["longer"], bytes)
    finally:
        connection.close()
        await asyncio.to_thread(heal, launcher)
