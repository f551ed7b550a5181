"""What a standalone hub is: its data directory, its identity, and its number of starts."""

import logging
import os
import uuid
from pathlib import Path
from typing import Final

from hedwig.errors import ConfigurationError, StandaloneHubExistsError
from hedwig.model import HubInfo
from metadata import MetadataStore

__all__ = ["CHECK_S", "first_ledger_id", "hub_id", "register", "successor"]

_log = logging.getLogger(__name__)

CHECK_S: Final = 2.0
"""How often a hub looks whether it was replaced: that long it may go on without knowing."""

_ID_FILE: Final = "hub-id"
_LEDGER_ID_BITS: Final = 32


def hub_id(directory: Path) -> str:
    """Return the id of the hub whose data are in `directory`; a new one for a new directory.

    Raises: ConfigurationError - the directory cannot be used, or what is in it is no id.
    """
    path = directory / _ID_FILE
    try:
        if not path.exists():
            fresh = path.with_suffix(".new")
            with fresh.open("w", encoding="ascii") as file:
                file.write(f"{uuid.uuid4()}\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        return str(uuid.UUID(path.read_text(encoding="ascii").strip()))
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"cannot read the hub's id in {path}: {exc}") from exc


async def register(store: MetadataStore, identity: str, hub: HubInfo, *, replace: bool) -> int:
    """Make this the one standalone hub of the metadata store; return the number of this start, its epoch.

    Raises: StandaloneHubExistsError - another data directory's hub is, and `replace` is not set; MetadataError.
    """
    epoch = await store.register_standalone(identity, hub.address, replace=replace)
    _log.info("start %d of the standalone hub %s", epoch, identity)
    return epoch


async def successor(store: MetadataStore, hub: HubInfo) -> StandaloneHubExistsError | None:
    """Say who has replaced this hub; None if nobody has. Raises: MetadataError - that cannot be told now.

    There is no fence around a disk of one's own: until a replaced hub asks this, it may acknowledge messages that its
    successor never sees. So replacing is for hubs that are gone, and this is for those that were not after all.
    """
    found = await store.standalone_hub()
    if found is None or found.starts <= hub.epoch:
        return None
    return StandaloneHubExistsError(
        f"this hub was replaced by the standalone hub {found.hub_id} at {found.address}, which has its metadata now; "
        "what this one stored is still in its data directory",
        found.hub_id,
        found.address,
    )


def first_ledger_id(epoch: int) -> int:
    """Return the least id of a ledger that this start of the hub may make.

    Range records name ledgers by id alone. With the epoch in front no two data directories that ever served the same
    metadata have a ledger id in common, so a topic whose messages are elsewhere is refused and not given others.
    """
    return epoch << _LEDGER_ID_BITS
