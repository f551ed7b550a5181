"""Deletes the last record of a topic, its persistence record, and then the ledgers that it named.

No other program can delete ledgers on a standalone hub's disk. Only the record says which ledgers these are, as this
hub read it at the version that it then deleted. The hub guesses nothing about other ledgers.
"""

from typing import TYPE_CHECKING

from hedwig.hub.admin.http.errors import ConflictError
from hedwig.model import LedgerRanges, Topic
from hedwig.names import show_name
from hedwig.versions import Version

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["delete_topic"]


async def delete_topic(hub: "Hub", name: Topic, version: Version) -> LedgerRanges:
    """Delete a topic without owner and subscriptions, and return the ranges that it had.

    The hub then deletes its ledgers in the background, for as long as it lives.

    Raises: ConflictError - the topic has an owner or subscriptions; BadVersionError, NoRecordError - the record is not
        at `version`; another MetadataError.
    """
    await _check_unused(hub, name)
    return await hub.topics.delete(name, version)


async def _check_unused(hub: "Hub", name: Topic) -> None:
    owner = await hub.metadata.ownership.read(name)
    if owner is not None:
        raise ConflictError(
            f"topic '{show_name(name)}' is owned by {owner.value.name}; release it first",
            reason="owned",
            owner=owner.value.address,
        )
    if await hub.metadata.subscriptions.count_subscriptions(name):
        raise ConflictError(f"topic '{show_name(name)}' has subscriptions; delete these first", reason="subscribed")
