"""What a standalone hub is: its data directory, its identity, and its number of starts."""

import logging
import os
import uuid
from pathlib import Path
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.model import HubInfo
from metadata import MetadataStore

__all__ = ["hub_id", "register"]

_log = logging.getLogger(__name__)

_ID_FILE: Final = "hub-id"


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
