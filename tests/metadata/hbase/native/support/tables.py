"""Dropping the tables of a namespace, which a cluster would otherwise keep open until it is short of memory."""

import functools

from hedwig.metadata import MetadataUrl, StoreOptions
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.schema import Tables

__all__ = ["drop_tables"]


async def drop_tables(url: str) -> None:
    """Drop the tables of the store at an `hbase://` URL; harmless where there are none."""
    options = StoreOptions(operation_timeout_s=120.0)
    parsed = MetadataUrl.parse(url)
    driver = await connect(parsed, options)
    try:
        for spec in Tables(parsed.path.strip("/")).specs(1):
            # A master that has just begun asks for patience.
            await Attempts(options, f"drop table {spec.name}").read(functools.partial(driver.drop_table, spec.name))
    finally:
        await driver.close()
