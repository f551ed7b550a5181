"""The standalone shape: one hub alone, with its ledgers on its own disk. Its number of starts is its epoch."""

import logging
import math
import os
import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks, repeat
from hedwig.errors import ConfigurationError, StandaloneHubExistsError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.local.starts import first_ledger_id
from hedwig.hub.membership import Member
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo
from hedwig.private_files import close_to_others, make_directory, make_file

__all__ = ["CHECK_S", "Standalone", "StandaloneLiveness", "hub_id"]

_log = logging.getLogger(__name__)

CHECK_S: Final = 2.0
"""A hub checks every N seconds whether it was replaced. A replaced hub may serve that long without knowing."""

_ID_FILE: Final = "hub-id"
_LEDGERS: Final = "ledgers"
_OWN: Final = re.compile(r"hub-id(\.new)?|ledgers|metadata\.db(-wal|-shm|-journal)?")
"""The files and directories of a data directory."""


class Standalone:
    """A Membership without liveness, with local ledgers.

    A record in the metadata names the one hub that may use it.
    """

    balance: None = None

    def __init__(self, options: HubOptions, clock: Clock, *, replace: bool) -> None:
        """`replace`: take the metadata over from another standalone hub."""
        self._options = options
        self._clock = clock
        self._replace = replace
        self._ledgers: LocalLedgerStore | None = None
        self._tasks = Tasks()
        self._is_replaced = False

    async def open(self) -> None:
        directory = self._options.data_directory
        try:
            make_directory(directory)
        except OSError as exc:
            raise ConfigurationError(f"cannot make the data directory {directory}: {exc}") from exc
        # The lock of the ledger store keeps every other process off the directory, so it is taken first.
        self._ledgers = await LocalLedgerStore.open(directory / _LEDGERS, self._options.ledgers)
        _close_to_others(directory)

    async def join(
        self,
        address: HubInfo,
        listeners: Mapping[str, str],  # noqa: ARG002 (nobody else looks for it)
        admin_port: int | None,  # noqa: ARG002
        hub: Member,
        metadata: MetadataStore,
    ) -> None:
        """Make this the one standalone hub of the metadata store.

        Raises: StandaloneHubExistsError - the hub of another data directory is registered, and may not be replaced;
            MetadataError.
        """
        assert self._ledgers is not None, "it was opened"
        identity = hub_id(self._options.data_directory)
        epoch = await metadata.register_standalone(identity, address.address, replace=self._replace)
        _log.info("start %d of the standalone hub %s", epoch, identity)
        me = replace(address, epoch=epoch)
        self._ledgers.give_ids_from(first_ledger_id(epoch))
        hub.registered(me, StandaloneLiveness(me, metadata), self._ledgers)

        async def look() -> None:
            error = await _successor(metadata, me)
            if error is not None and not self._is_replaced:
                self._is_replaced = True
                await hub.lost(str(error))
                hub.give_up(error)

        self._tasks.start(repeat("look at the registration", self._clock, CHECK_S, look))

    def listeners(self) -> Mapping[str, Mapping[str, str]]:
        """Return none: there are no other hubs."""
        return {}

    def is_proven(self) -> bool:
        """Return True: nothing expires. A replaced hub learns of it at its next check, or when a write is refused."""
        return True

    async def leave(self) -> None:
        await self._tasks.cancel()

    async def close(self) -> None:
        if self._ledgers is not None:
            await self._ledgers.aclose()


class StandaloneLiveness:
    """The liveness of the only hub: each other hub that an owner record names has ended.

    The exception is a hub that was replaced and does not know yet. It must not take topics from its successor. So
    `is_alive` reads the registration. The epoch of the owner cannot tell: in a record that a cluster left, it is a zxid
    of ZooKeeper.
    """

    def __init__(self, me: HubInfo, store: MetadataStore) -> None:
        self._me = me
        self._store = store

    @property
    def me(self) -> HubInfo:
        return self._me

    @property
    def remaining_s(self) -> float:
        """Infinite: nothing expires."""
        return math.inf

    async def is_alive(self, hub: HubInfo) -> bool:
        if hub.epoch == self._me.epoch and hub.address == self._me.address:
            return True
        registered = await self._store.standalone_hub()
        return registered is not None and registered.starts > self._me.epoch

    def seems_alive(self, hub: HubInfo) -> bool:  # noqa: ARG002 (of others there is nothing to remember)
        return False

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:  # noqa: ARG002 (there is no other)
        return self._me


def hub_id(directory: Path) -> str:
    """Return the id of the hub whose data are in `directory`; make one for a new directory.

    Raises: ConfigurationError - the directory cannot be used, or its id file holds no id.
    """
    path = directory / _ID_FILE
    try:
        if not path.exists():
            fresh = path.with_suffix(".new")
            make_file(fresh)
            with fresh.open("w", encoding="ascii") as file:
                file.write(f"{uuid.uuid4()}\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        return str(uuid.UUID(path.read_text(encoding="ascii").strip()))
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"cannot read the hub's id in {path}: {exc}") from exc


def _close_to_others(directory: Path) -> None:
    """Remove the read access to a data directory that former releases gave to other users of the machine."""
    entries = list(directory.iterdir())
    own = [path for path in entries if _OWN.fullmatch(path.name)]
    # A directory that holds other files may be meant for other users too.
    for path in [directory, *own] if own == entries else own:
        try:
            if close_to_others(path):
                _log.info("closed %s to other users of this machine", path)
        except OSError as exc:
            _log.warning("%s is open to other users of this machine, and stays so: %s", path, exc.strerror)


async def _successor(store: MetadataStore, hub: HubInfo) -> StandaloneHubExistsError | None:
    """Return which hub has replaced this one; None if none has. Raises: MetadataError - the store cannot answer now.

    A local disk has no fencing. Until a replaced hub runs this check, it may acknowledge messages that its successor
    never sees. So replace only hubs that are gone. This check stops those that were still running.
    """
    record = await store.standalone_hub()
    if record is None or record.starts <= hub.epoch:
        return None
    return StandaloneHubExistsError(
        f"the standalone hub {record.hub_id} at {record.address} has replaced this hub, and has its metadata now. "
        "The messages that this hub stored are still in its data directory",
        record.hub_id,
        record.address,
    )
