"""Ledger metadata in ZooKeeper, laid out and changed as BookKeeper does it."""

import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from kazoo.exceptions import BadVersionError as ZnodeVersionError
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError, ZookeeperError

from hedwig.clock import Clock, Deadline
from hedwig.errors import (
    BadVersionError,
    ConfigurationError,
    CorruptRecordError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.records.metadata_format import decode_metadata, encode_metadata
from hedwig.hub.ledgers.bookkeeper.records.session import Session
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout, layout_text, parse_layout
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_ids import LedgerIds
from hedwig.versions import Version, Versioned
from hedwig.zookeeper import Request, children, create, delete, exists, get, set_at, sync

__all__ = ["Glance", "ZookeeperLedgerMetadata"]

_log = logging.getLogger(__name__)

_VERSION_MARK: Final = b"k"
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Glance:
    """The record of a ledger as one server has it. If there is no such ledger, `held` and `error` are None.

    `made_ms` is the time at which its node was made, by the clock of ZooKeeper, in ms since 1970.
    """

    ledger_id: int
    held: Versioned[LedgerMetadata] | None = None
    made_ms: int = 0
    error: CorruptRecordError | None = None


class ZookeeperLedgerMetadata:
    """A LedgerMetadataStore below one root of a ZooKeeper. Each operation ends within `timeout_s`."""

    def __init__(self, session: Session, root: str, layout: LedgerLayout, clock: Clock, timeout_s: float) -> None:
        self._session = session
        self._root = root
        self._layout = layout
        self._clock = clock
        self._timeout_s = timeout_s
        self._ids = LedgerIds(session, root, layout)

    @classmethod
    async def open(
        cls, session: Session, root: str, clock: Clock, timeout_s: float = 10.0, *, made_as: LedgerLayout | None = None
    ) -> Self:
        """Read how ledgers are laid out below `root`, and return the store.

        If the root exists without a layout, as before the first bookie, this call records `made_as`. BookKeeper's
        bookies and clients do so too, and the first wins.

        Raises: ConfigurationError - its layout is not known here, or, without `made_as`, there is none;
            LedgerStoreUnavailableError - ZooKeeper does not answer, or there is no such root yet.
        """
        path = f"{root}/LAYOUT"
        deadline = Deadline.after(clock, timeout_s)
        try:
            _, node = await session.send(deadline, sync(path), get(path))
            if isinstance(node, NoNodeError) and made_as is not None:
                await _make_layout(session, root, deadline, made_as)
                _, node = await session.send(deadline, sync(path), get(path))
        except LedgerWriteError as exc:
            raise LedgerStoreUnavailableError(f"{path} cannot be read or made: {exc}") from exc
        if isinstance(node, NoNodeError):
            text = f"there is no {path}: start a bookie with this root first, or correct the root"
            # A caller that would make the layout can wait until BookKeeper is set up there.
            raise ConfigurationError(text) if made_as is None else LedgerStoreUnavailableError(text)
        if isinstance(node, ZookeeperError):
            raise LedgerStoreUnavailableError(f"{path} cannot be read: {type(node).__name__}")
        return cls(session, root, parse_layout(node[0]), clock, timeout_s)

    async def new_ledger_id(self) -> int:
        try:
            return await self._ids.next(self._deadline())
        except LedgerWriteError as exc:
            # An id whose answer was lost stays unused.
            raise LedgerStoreUnavailableError(f"cannot get a ledger id: {exc}") from exc

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> Version | None:
        deadline = self._deadline()
        path, content = self._path(ledger_id), encode_metadata(metadata)
        lost: LedgerWriteError | None = None
        while True:
            try:
                (made,) = await self._session.send(deadline, create(path, content))
            except LedgerWriteError as exc:
                if deadline.remaining_s() <= _PAUSE_S:
                    raise
                lost = exc
                await self._clock.sleep(_PAUSE_S)
                continue
            except LedgerStoreUnavailableError as exc:
                if lost is not None:
                    raise LedgerWriteError(f"cannot tell whether ledger {ledger_id} was made: {exc}") from exc
                raise
            if isinstance(made, NoNodeError):
                await self._make_parents(deadline, path)
            elif isinstance(made, NodeExistsError):
                return await self._ours(ledger_id, metadata) if lost is not None else None
            elif isinstance(made, ZookeeperError):
                refused = _refused(ledger_id, made)
                if lost is not None:
                    raise LedgerWriteError(f"cannot tell whether ledger {ledger_id} was made: {refused}")
                raise refused
            else:
                return _version(0)

    async def read(self, ledger_id: int) -> Versioned[LedgerMetadata]:
        deadline = self._deadline()
        path = self._path(ledger_id)
        _, node = await self._ask(deadline, f"the metadata of ledger {ledger_id}", sync(path), get(path))
        if isinstance(node, NoNodeError):
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        if isinstance(node, ZookeeperError):
            raise _refused(ledger_id, node)
        content, stat = node
        try:
            return Versioned(decode_metadata(content), _version(stat.version))
        except CorruptRecordError as exc:
            raise CorruptRecordError(f"ledger {ledger_id}, {path}: {exc}") from exc

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> Version:
        content = encode_metadata(metadata)
        request = set_at(self._path(ledger_id), content, _znode_version(version))
        (stat,) = await self._session.send(self._deadline(), request)
        if isinstance(stat, NoNodeError):
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        if isinstance(stat, ZnodeVersionError):
            raise BadVersionError(f"another client changed the metadata of ledger {ledger_id}")
        if isinstance(stat, ZookeeperError):
            raise _refused(ledger_id, stat)
        return _version(stat.version)

    async def delete(self, ledger_id: int) -> None:
        await self._delete(ledger_id, -1)

    async def delete_at(self, ledger_id: int, version: Version) -> bool:
        """Remove the record if it still has this version; return whether there is none now. Raises as `delete`."""
        return await self._delete(ledger_id, _znode_version(version))

    async def glance(self, ledger_ids: Sequence[int]) -> list[Glance]:
        """Return what the connected server has of many ledgers, in their order.

        The server may be behind, so this is for lists, and for ledgers that the caller reads again.

        Raises: LedgerStoreUnavailableError.
        """
        if not ledger_ids:
            return []
        deadline = self._deadline()
        requests = [get(self._path(ledger_id)) for ledger_id in ledger_ids]
        results = await self._ask(deadline, "the metadata of ledgers", *requests)
        return [_glance(ledger_id, result) for ledger_id, result in zip(ledger_ids, results, strict=True)]

    async def now_ms(self) -> int:
        """Return the time by the clock of ZooKeeper, which dates the nodes of ledgers, in ms since 1970.

        This makes a node and deletes it. BookKeeper ignores nodes of that name. The node ends with the session at the
        latest.

        Raises: LedgerStoreUnavailableError.
        """
        path = f"{self._root}/ID-clock-{uuid.uuid4().hex}"
        requests = create(path, ephemeral=True), exists(path), delete(path)
        made, stat, _ = await self._ask(self._deadline(), "the time of ZooKeeper", *requests)
        if stat is None:
            raise LedgerStoreUnavailableError(f"{path} cannot be made: ZooKeeper answered {type(made).__name__}")
        if isinstance(stat, ZookeeperError):
            raise LedgerStoreUnavailableError(f"{path} cannot be read: ZooKeeper answered {type(stat).__name__}")
        return int(stat.ctime)

    def can_keep(self, ledger_id: int) -> bool:
        """Say whether there can be a ledger of this id here."""
        return 0 <= ledger_id < self._layout.ids_end

    async def _delete(self, ledger_id: int, version: int) -> bool:
        deadline = self._deadline()
        path = self._path(ledger_id)
        gone = await self._read(deadline, delete(path, version), f"ledger {ledger_id}, which is to be deleted,")
        if isinstance(gone, ZnodeVersionError):
            return False
        if isinstance(gone, ZookeeperError) and not isinstance(gone, NoNodeError):
            raise _refused(ledger_id, gone)
        await self._delete_folders(deadline, path)
        return True

    async def _delete_folders(self, deadline: Deadline, path: str) -> None:
        # Delete the folders with their last ledger, as BookKeeper does. The next ledger there makes them again.
        parent = path.rpartition("/")[0]
        while parent != self._root:
            if isinstance(await self._read(deadline, delete(parent), parent), (NotEmptyError, NoNodeError)):
                return
            parent = parent.rpartition("/")[0]

    async def ledgers(self) -> AsyncIterator[int]:
        """Yield all ledgers. Raises: LedgerStoreUnavailableError."""
        async for path in self._walk(""):
            ledger_id = self._layout.ledger_id(path)
            if ledger_id is not None:
                yield ledger_id

    # Inside.

    async def _walk(self, path: str) -> AsyncIterator[str]:
        full = f"{self._root}/{path}" if path else self._root
        names = await self._read(self._deadline(), children(full), full)
        if isinstance(names, NoNodeError):
            return
        if isinstance(names, ZookeeperError):
            raise LedgerStoreUnavailableError(f"{full} cannot be listed: {type(names).__name__}")
        # Two digits before three: short ids are lower than long ones.
        for name in sorted(names, key=lambda name: (len(name), name)):
            inner = f"{path}/{name}" if path else name
            if self._layout.is_directory(inner):
                async for leaf in self._walk(inner):
                    yield leaf
            else:
                yield inner

    async def _read(self, deadline: Deadline, request: Request, what: str) -> Any:
        """Send a request, which may be repeated, until it is answered. Raises: LedgerStoreUnavailableError."""
        (result,) = await self._ask(deadline, what, request)
        return result

    async def _ask(self, deadline: Deadline, what: str, *requests: Request) -> list[Any]:
        """Send requests back to back, which may be repeated, until all are answered. Raises as `_read`."""
        while True:
            try:
                return await self._session.send(deadline, *requests)
            except LedgerWriteError as exc:
                if deadline.remaining_s() <= _PAUSE_S:
                    raise LedgerStoreUnavailableError(f"{what} could not be reached: {exc}") from exc
                await self._clock.sleep(_PAUSE_S)

    async def _ours(self, ledger_id: int, metadata: LedgerMetadata) -> Version | None:
        """Return the version if an attempt of ours made the record and its answer was lost, else None."""
        try:
            stored = await self.read(ledger_id)
        except NoSuchLedgerError:
            return None
        except LedgerStoreUnavailableError as exc:
            raise LedgerWriteError(f"cannot tell whether ledger {ledger_id} was made: {exc}") from exc
        is_ours = metadata.creation_token is not None and stored.value.creation_token == metadata.creation_token
        return stored.version if is_ours else None

    async def _make_parents(self, deadline: Deadline, path: str) -> None:
        below = path.removeprefix(f"{self._root}/").split("/")[:-1]
        parent = self._root
        for name in below:
            parent = f"{parent}/{name}"
            made = await self._read(deadline, create(parent), parent)
            if isinstance(made, ZookeeperError) and not isinstance(made, (NodeExistsError, NoNodeError)):
                raise LedgerStoreUnavailableError(f"{parent} cannot be made: {type(made).__name__}")

    def _deadline(self) -> Deadline:
        return Deadline.after(self._clock, self._timeout_s)

    def _path(self, ledger_id: int) -> str:
        return f"{self._root}/{self._layout.path(ledger_id)}"


async def _make_layout(session: Session, root: str, deadline: Deadline, layout: LedgerLayout) -> None:
    """Record a layout if the root exists: FLAT if it has ledgers of older releases, else `layout`. The first wins."""
    (names,) = await session.send(deadline, children(root))
    if isinstance(names, ZookeeperError):
        return
    # Bookies delete ledgers that they do not find in the recorded layout.
    if any(LedgerLayout.FLAT.ledger_id(name) is not None for name in names):
        layout = LedgerLayout.FLAT
    (made,) = await session.send(deadline, create(f"{root}/LAYOUT", layout_text(layout)))
    if not isinstance(made, ZookeeperError):
        _log.info("%s had no layout of ledgers: it is %s now", root, layout.value)


def _glance(ledger_id: int, result: Any) -> Glance:
    if isinstance(result, NoNodeError):
        return Glance(ledger_id)
    if isinstance(result, ZookeeperError):
        raise _refused(ledger_id, result)
    content, stat = result
    try:
        held = Versioned(decode_metadata(content), _version(stat.version))
    except CorruptRecordError as exc:
        return Glance(ledger_id, None, int(stat.ctime), exc)
    return Glance(ledger_id, held, int(stat.ctime))


def _version(number: int) -> Version:
    return Version(_VERSION_MARK + b"%d" % number)


def _znode_version(version: Version) -> int:
    return int(version.raw.removeprefix(_VERSION_MARK))


def _refused(ledger_id: int, error: ZookeeperError) -> LedgerStoreUnavailableError:
    return LedgerStoreUnavailableError(f"ledger {ledger_id}: ZooKeeper answered {type(error).__name__}")
