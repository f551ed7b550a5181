"""Prove that a refusal after a lost answer to the same write is never taken for a proof that the write was not done.

Property: an unknown outcome is never reported as known. SQLite is not here: it makes one attempt at a write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeAlias

import pytest
from kazoo.client import KazooClient

from hedwig.errors import UncertainStateError
from hedwig.metadata import MetadataUrl
from hedwig.metadata.hbase.schema import Tables
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from hedwig.versions import NEW
from tests.faults.support.network import NETWORKED, Networked
from tests.faults.support.proxy import PASS, Action, Step, scripted
from tests.metadata.hbase.native.support.administrator import Administrator
from tests.metadata.hbase.native.support.tables import drop_tables
from tests.metadata.support.backends import Surroundings
from tests.support.servers import RunningServers

THROUGH_THE_GATEWAY: Final[tuple[str, ...]] = ()

Refuse: TypeAlias = Callable[[RunningServers, Subject, Call], Awaitable[None]]

NEIGHBOUR: Final = CALLS[0]
DOOR: Final = CALLS[1]


async def _read_only(servers: RunningServers, subject: Subject, door: Call) -> None:
    """Make the table read-only."""
    async with Administrator(servers.address("hbase")) as administrator:
        table = Tables(MetadataUrl.parse(subject.url).path.strip("/")).name(door.kind)
        await administrator.set_read_only(table, is_read_only=True)


async def _dropped(servers: RunningServers, subject: Subject, _door: Call) -> None:
    """Drop the tables by another access path, since the one under test cannot do it at once."""
    await drop_tables(f"hbase://{servers.address('zookeeper')}{MetadataUrl.parse(subject.url).path}")


async def _removed(_servers: RunningServers, subject: Subject, _door: Call) -> None:
    """Remove the whole tree of a store in ZooKeeper."""
    await asyncio.to_thread(_remove_tree, subject)


def _remove_tree(subject: Subject) -> None:
    url = MetadataUrl.parse(subject.url)
    client = KazooClient(url.hosts)
    client.start()
    client.delete(url.path, recursive=True)
    client.stop()
    client.close()


REFUSALS: Final[dict[str, dict[str, Refuse]]] = {
    "zookeeper": {"removed": _removed},
    "hbase": {"read-only": _read_only, "dropped": _dropped},
    "hbase+thrift": {"dropped": _dropped},
}
_ROWS: Final = {row.label: row for row in NETWORKED}


@pytest.mark.parametrize("is_new", [True, False], ids=["create", "update"])
@pytest.mark.parametrize(
    ("networked", "refuse"),
    [
        pytest.param(_ROWS[label], refuse, id=f"{label}-{name}")
        for label, refusals in REFUSALS.items()
        for name, refuse in refusals.items()
    ],
)
async def test_refusal_after_a_lost_answer_is_uncertain(
    networked: Networked,
    refuse: Refuse,
    is_new: bool,
    servers: RunningServers,
    surroundings: Surroundings,
    clients: Clients,
) -> None:
    """Lose the answer to a write that was applied, and have the store refuse the same write when it is sent again."""
    subject = networked.row.subject(surroundings)
    await subject.format()
    key, first, second = DOOR.key(b"topic"), DOOR.value(1), DOOR.value(2)
    direct = await clients.open(subject)
    # In ZooKeeper the first record of a topic takes more requests, which make its node.
    await NEIGHBOUR.write(direct, NEIGHBOUR.key(b"topic"), NEIGHBOUR.value(1), NEW)
    version = NEW if is_new else await DOOR.write(direct, key, first, NEW)
    was_applied = []

    async def meanwhile() -> None:
        record = await DOOR.read(direct, key)
        was_applied.append(record is not None and record.value == second)
        await refuse(servers, subject, DOOR)

    kind = "create" if is_new else "update"
    steps = [*[PASS] * (networked.decisive.get(kind, 1) - 1), Step(Action.CUT_REPLY, meanwhile=meanwhile)]
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(networked.proxy(subject, scripted(networked.write, steps)))
        store = await stack.enter_async_context(await networked.behind(proxy, subject).open())
        with pytest.raises(UncertainStateError) as caught:
            await DOOR.write(store, key, second, version)
    assert was_applied == [True], "the write whose answer was lost is in the store"
    assert caught.value.happened == "unknown"
