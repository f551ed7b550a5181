"""Drops the tables of a namespace. A cluster would otherwise keep them open until it runs out of memory."""

import functools

from hedwig.metadata import MetadataUrl, StoreOptions
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.schema import Tables

__all__ = ["drop_tables"]


async def drop_tables(url: str) -> None:
    """Drop the tables of the store at an `hbase://` URL, if there are any."""
    options = StoreOptions(operation_timeout_s=120.0)
    parsed = MetadataUrl.parse(url)
    driver = await connect(parsed, options)
    try:
        tables = Tables(parsed.path.strip("/"))
        for name in (tables.name(BY_SUBSCRIBER), *(spec.name for spec in tables.specs(1))):
            # A master that has just started refuses for a while.
            await Attempts(options, f"drop table {name}").read(functools.partial(driver.drop_table, name))
    finally:
        await driver.close()
