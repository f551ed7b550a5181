"""The format of a store with shared logs: software that knows no shared logs must refuse the store.

A hub writes the record of its log first, and raises the format then, before it appends anything. So a format is lowered
only while there is no log, or is raised again by the hub of a new one.
"""

from hedwig.metadata.contract.layout import FORMAT_MAJOR, LOGS_PREFIX, SHARED_LOGS_MAJOR
from hedwig.metadata.store import MetadataStore

__all__ = ["lower_format", "raise_format"]


async def raise_format(store: MetadataStore) -> None:
    """Record that `store` may have shared logs. Call it after each record of a new log.

    Raises: MetadataError - it may be recorded, so repeat it.
    """
    await store.set_format(SHARED_LOGS_MAJOR)


async def lower_format(store: MetadataStore) -> bool:
    """Record that `store` has no shared logs, unless it has; return whether that was recorded.

    False may also mean that another process recorded a format at the same time.

    Raises: MetadataError - it may be recorded, so repeat it.
    """
    return await store.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX)
