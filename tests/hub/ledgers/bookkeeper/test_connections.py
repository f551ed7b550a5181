"""Requests to a bookie: they are answered, they time out, or their outcome is unknown when the connection ends."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hedwig.errors import InvalidArgumentError
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.bookies import connection as connection_module
from hedwig.hub.ledgers.bookkeeper.bookies.bookies import ask
from hedwig.hub.ledgers.bookkeeper.bookies.connection import BOUNDS
from hedwig.hub.ledgers.bookkeeper.bookies.links import BookieLinks
from hedwig.hub.ledgers.bookkeeper.wire.codec import FRAME_BYTES_MAX
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import AddEntry, BookieAnswer, ReadEntry
from tests.hub.ledgers.bookkeeper.support.scripted_peer import ScriptedPeer, listening

LONG_S = 30.0


def read(entry_id: int) -> ReadEntry:
    return ReadEntry(ledger_id=1, entry_id=entry_id)


def read_response(entry_id: int) -> pb.ReadResponse:
    return pb.ReadResponse(status=0, ledgerId=1, entryId=entry_id, body=b"entry %d" % entry_id)


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with listening() as peer:
        yield peer


@pytest.fixture
async def links(peer: ScriptedPeer) -> AsyncIterator[BookieLinks]:
    links = BookieLinks(peer)
    yield links
    await links.aclose()


async def started(links: BookieLinks, entry_id: int, timeout_s: float = LONG_S) -> "asyncio.Task[BookieAnswer]":
    return asyncio.create_task(ask(links, "bookie", read(entry_id), timeout_s))


async def test_an_answer_that_does_not_come_leaves_the_others_alone(peer: ScriptedPeer, links: BookieLinks) -> None:
    lost = await started(links, 1, 0.2)
    request, writer = await peer.next()
    kept = await started(links, 2)
    assert (await lost).outcome is BookieOutcome.UNANSWERED
    # The answer is too late: its request has timed out.
    peer.answer(request, writer, readResponse=read_response(1))
    request, writer = await peer.next()
    peer.answer(request, writer, readResponse=read_response(2))
    assert (await kept).body == b"entry 2"
    assert peer.connections == 1


async def test_a_silent_bookie_loses_its_connection(
    peer: ScriptedPeer, links: BookieLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "BOUNDS", replace(BOUNDS, silence_s=0.2))
    lost, other = await started(links, 1, 0.3), await started(links, 2)
    assert (await lost).outcome is BookieOutcome.UNANSWERED
    answer = await other
    assert answer.outcome is BookieOutcome.UNANSWERED
    assert "silent" in answer.why
    # Both of these arrived over the old connection. The third arrives over a new one.
    await peer.next()
    await peer.next()
    again = await started(links, 3)
    request, writer = await peer.next()
    peer.answer(request, writer, readResponse=read_response(3))
    assert (await again).outcome is BookieOutcome.DONE
    assert peer.connections == 2


async def test_the_end_of_the_connection_leaves_what_was_sent_uncertain(peer: ScriptedPeer, links: BookieLinks) -> None:
    tasks = [await started(links, entry) for entry in range(5)]
    for _ in tasks:
        await peer.next()
    peer.hang_up()
    assert {answer.outcome for answer in await asyncio.gather(*tasks)} == {BookieOutcome.UNANSWERED}


async def test_nothing_is_sent_where_nobody_listens(peer: ScriptedPeer, links: BookieLinks) -> None:
    await peer.stop()
    answers = await asyncio.gather(*[await started(links, entry) for entry in range(3)])
    assert {answer.outcome for answer in answers} == {BookieOutcome.NOT_SENT}
    # The next request fails at once, within the pause before the next attempt.
    assert (await ask(links, "bookie", read(9), LONG_S)).outcome is BookieOutcome.NOT_SENT


async def test_bytes_that_are_no_answer_end_the_connection(peer: ScriptedPeer, links: BookieLinks) -> None:
    task = await started(links, 1)
    _, writer = await peer.next()
    writer.write(b"\x00\x00\x00\x04\x02\x00\x00\x00")
    answer = await task
    assert answer.outcome is BookieOutcome.UNANSWERED
    assert "no answer" in answer.why


async def test_what_is_in_flight_is_bounded(
    peer: ScriptedPeer, links: BookieLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "BOUNDS", replace(BOUNDS, calls_max=2))
    first = await started(links, 0)
    request, writer = await peer.next()
    second = await started(links, 1)
    await peer.next()
    assert (await ask(links, "bookie", read(2), LONG_S)).outcome is BookieOutcome.BUSY
    peer.answer(request, writer, readResponse=read_response(0))
    assert (await first).outcome is BookieOutcome.DONE
    third = await started(links, 3)
    request, writer = await peer.next()
    peer.answer(request, writer, readResponse=read_response(3))
    assert (await third).outcome is BookieOutcome.DONE
    assert not second.done()
    peer.hang_up()
    assert (await second).outcome is BookieOutcome.UNANSWERED


async def test_bytes_in_flight_are_bounded_but_one_request_always_goes(
    peer: ScriptedPeer, links: BookieLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "BOUNDS", replace(BOUNDS, bytes_max=10))
    add = AddEntry(ledger_id=1, entry_id=0, master_key=b"", body=bytes(100))
    first = asyncio.create_task(ask(links, "bookie", add, LONG_S))
    request, writer = await peer.next()
    assert (await ask(links, "bookie", add, LONG_S)).outcome is BookieOutcome.BUSY
    peer.answer(request, writer, addResponse=pb.AddResponse(status=0, ledgerId=1, entryId=0))
    assert (await first).outcome is BookieOutcome.DONE


async def test_what_is_too_large_for_a_frame_is_refused_before_sending(links: BookieLinks) -> None:
    add = AddEntry(ledger_id=1, entry_id=0, master_key=b"", body=bytes(FRAME_BYTES_MAX))
    with pytest.raises(InvalidArgumentError):
        await ask(links, "bookie", add, LONG_S)


async def test_closing_ends_what_is_in_flight_and_refuses_the_rest(peer: ScriptedPeer, links: BookieLinks) -> None:
    task = await started(links, 1)
    await peer.next()
    await links.aclose()
    await links.aclose()
    assert (await task).outcome is BookieOutcome.UNANSWERED
    assert (await ask(links, "bookie", read(2), LONG_S)).outcome is BookieOutcome.NOT_SENT


async def test_closing_while_connecting(peer: ScriptedPeer) -> None:
    class Nowhere:
        async def resolve(self, bookie: str) -> tuple[str, int]:
            await asyncio.Event().wait()
            raise AssertionError

    links = BookieLinks(Nowhere())
    task = await started(links, 1)
    await asyncio.wait([task], timeout=0.01)
    await links.aclose()
    assert (await task).outcome is BookieOutcome.NOT_SENT


async def test_a_bookie_that_cannot_be_found_is_not_reached() -> None:
    class Confused:
        async def resolve(self, bookie: str) -> tuple[str, int]:
            raise ValueError("no such name")

    links = BookieLinks(Confused())
    answer = await ask(links, "bookie", read(2), LONG_S)
    assert answer.outcome is BookieOutcome.NOT_SENT
    assert "no such name" in answer.why
    await links.aclose()


async def test_connecting_takes_no_longer_than_allowed() -> None:
    class Nowhere:
        async def resolve(self, bookie: str) -> tuple[str, int]:
            await asyncio.Event().wait()
            raise AssertionError

    links = BookieLinks(Nowhere(), connect_timeout_s=0.05)
    assert (await ask(links, "bookie", read(2), LONG_S)).outcome is BookieOutcome.NOT_SENT
    await links.aclose()
