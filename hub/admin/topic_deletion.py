"""Deleting the last of a topic, its persistence record, and then the ledgers that it named.

On a standalone hub's disk nobody else can delete them. Nothing but the record says which ledgers these are, as this hub
read it at the version that it then deleted: what became of a ledger elsewhere is nobody's guess.
"""

from typing import TYPE_CHECKING

from hedwig.hub.admin.server import ConflictError
from hedwig.model import LedgerRanges, Topic
from hedwig.names import show_name
from hedwig.versions import Version

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["delete_topic"]


async def delete_topic(hub: "Hub", name: Topic, version: Version) -> LedgerRanges:
    """Delete a topic that has neither owner nor subscriptions any more, and return the ranges that it had.

    Its ledgers are being deleted when this returns, and that goes on for as long as the hub lives.

    Raises: ConflictError - it is used; BadVersionError, NoRecordError - it is not at `version`; another MetadataError.
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
