"""A caller that waits for the writes of a table asks each of its HBase regions, including unnoticed new ones."""

from typing import Final

import pytest

from hedwig.errors import LayoutMissingError
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.hbase.driver import TableSpec
from hedwig.metadata.hbase.native.wire.regions import Region, Server
from hedwig.outcomes import NotAppliedError
from tests.faults.support.wires import Request
from tests.metadata.hbase.native.conftest import OPTIONS, Doors, Namespace, soon
from tests.metadata.hbase.native.support.rewriter import Rewriter

COLUMN: Final = b"o:~"


class Listener(Rewriter):
    """Stands before a server, and records the writes that it receives."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, lambda _, frame: frame)
        self.writes: list[bytes] = []

    def note(self, method: str, request: Request) -> None:
        super().note(method, request)
        if method in ("Mutate", "Multi"):
            self.writes.append(request.data)

    def asked(self, region: Region) -> int:
        """Return the number of writes to a region."""
        return sum(write.count(region.name) for write in self.writes)


async def test_each_region_is_asked(doors: Doors, namespace: Namespace) -> None:
    host, _, port = namespace.region_server.rpartition(":")
    table = f"{namespace.name}:splitting"
    administrator = await doors.administrator()
    async with Listener(Server(host, int(port))) as listener:
        driver = await doors.driver(listener.route)
        spec = TableSpec(
            name=table, families=[b"o"], family_attributes={}, table_attributes={}, split_points=[b"5", b"a"]
        )
        await driver.create_table(spec, soon())
        regions = await administrator.regions(table)
        assert len(regions) == 3
        await driver.wait_for_writes(table, COLUMN, soon())
        assert all(listener.asked(region) for region in regions)

        await administrator.split(regions[1], b"7")
        listener.writes.clear()
        with pytest.raises(NotAppliedError):
            await driver.wait_for_writes(table, COLUMN, soon())
        await Attempts(OPTIONS, "wait").read(lambda deadline: driver.wait_for_writes(table, COLUMN, deadline))
        after = await administrator.regions(table)
        assert len(after) == 4
        assert all(listener.asked(region) for region in after)


async def test_a_table_that_is_missing_is_an_error(doors: Doors, namespace: Namespace) -> None:
    driver = await doors.driver()
    with pytest.raises(LayoutMissingError):
        await driver.wait_for_writes(f"{namespace.name}:nothing", COLUMN, soon())
