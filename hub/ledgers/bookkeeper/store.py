"""The ledger store on BookKeeper, for asyncio callers."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Final, Self

from hedwig.clock import Clock
from hedwig.errors import (
    BadVersionError,
    CorruptEntryError,
    CorruptRecordError,
    EntryOrderError,
    HedwigError,
    InvalidArgumentError,
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    LedgerStoreClosedError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.bookkeeper.bookies.links import BookieLinks
from hedwig.hub.ledgers.bookkeeper.bookies.placement import choose_ensemble
from hedwig.hub.ledgers.bookkeeper.bookies.zookeeper_registry import ZookeeperRegistry
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.last_confirmed import read_last_confirmed
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.reading import read_length, read_payloads
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.session import Session
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.recovery import recover
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest, master_key
from hedwig.hub.ledgers.bookkeeper.writer import LedgerWriter
from hedwig.hub.ledgers.store import InDoubt, LedgerStoreStats
from hedwig.versions import Versioned

__all__ = ["BookkeeperLedgerStore"]

_log = logging.getLogger(__name__)

_CREATIONS_MAX: Final = 16
_CLOSED_KEPT_MAX: Final = 10_000
"""The store keeps at most N records of closed ledgers. They change no more, except when bookies are repaired."""

_ENDED_KEPT_MAX: Final = 10_000
"""The store keeps, for at most N ledgers, why nothing can be appended to them here any more."""


class BookkeeperLedgerStore:
    """A LedgerStore on bookies, for one event loop.

    Its operations end by the deadlines of `options.cluster`. A ledger open for append costs its writer. Any other costs
    at most one of the 10,000 records that the store keeps.
    """

    def __init__(self, cluster: BookieCluster, options: BookkeeperOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._digest = Digest(options.digest, options.password)
        self._key = master_key(options.password)
        self._writers: dict[int, LedgerWriter] = {}
        self._closed_ledgers: OrderedDict[int, LedgerMetadata] = OrderedDict()
        self._ended: OrderedDict[int, type[LedgerError]] = OrderedDict()
        self._is_closed = False
        self._links: BookieLinks | None = None
        self._registry: ZookeeperRegistry | None = None
        self._shutdown: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, session: Session, root: str, options: BookkeeperOptions, clock: Clock, random: Random) -> Self:
        """Return a store on the bookies that are registered below `root`. The caller closes the session.

        If the root has no layout of ledgers, this call records one.

        Raises: ConfigurationError - the root has a layout that is not known here; LedgerStoreUnavailableError -
            ZooKeeper does not answer, or there is no such root yet.
        """
        # The layout that BookKeeper clients of either time record where there is none.
        layout = LedgerLayout.FLAT if options.metadata_format == 2 else LedgerLayout.HIERARCHICAL
        metadata = await ZookeeperLedgerMetadata.open(session, root, clock, made_as=layout)
        registry = await ZookeeperRegistry.open(session, root, clock)
        links = BookieLinks(registry, tls=options.tls)
        store = cls(BookieCluster(links, registry, metadata, options.cluster, random), options)
        store._links, store._registry = links, registry
        return store

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        """Return the id of a new ledger; see LedgerStore. `about` becomes custom metadata, but not in format 2."""
        self._check_open()
        cluster = self._cluster
        size = self._options.quorums.ensemble
        for _ in range(_CREATIONS_MAX):
            writable = cluster.registry.writable()
            ensemble = choose_ensemble(writable, cluster.suspects.current(), size, cluster.random)
            if ensemble is None:
                raise LedgerStoreUnavailableError(f"a ledger needs {size} bookies, and {len(writable)} are registered")
            ledger_id = await cluster.metadata.new_ledger_id()
            token = cluster.random.randrange(1, 1 << 63)
            metadata = LedgerMetadata(
                format_version=self._options.metadata_format,
                quorums=self._options.quorums,
                state=LedgerState.OPEN,
                ensembles=(Ensemble(first_entry_id=0, bookies=ensemble),),
                digest=self._options.digest,
                password=self._options.password,
                custom={**self._options.custom, **(about or {})} if self._options.metadata_format != 2 else {},
                creation_token=token,
            )
            try:
                version = await cluster.metadata.create(ledger_id, metadata)
            except BaseException as exc:
                # A record without entries may stay, under an id that no caller will ever be given.
                if in_doubt is not None and not (isinstance(exc, HedwigError) and exc.happened == "no"):
                    in_doubt(ledger_id, token)
                if isinstance(exc, LedgerWriteError):
                    raise LedgerStoreUnavailableError(f"no ledger could be made: {exc}") from exc
                raise
            if version is not None:
                held = Versioned(metadata, version)
                # Another client may recover more entries than a failed writer knows, so no read may rely on it.
                forget = partial(self._writers.pop, ledger_id, None)
                self._writers[ledger_id] = LedgerWriter(
                    cluster, ledger_id, held, self._digest, self._key, on_failure=forget
                )
                return ledger_id
        raise LedgerStoreUnavailableError(f"{_CREATIONS_MAX} new ledger ids were taken: is the id counter damaged?")

    async def undo(self, ledger_id: int, token: int) -> None:
        """Delete the ledger of a `create` in doubt; see LedgerStore. Records of format 2 do not name their maker."""
        self._check_open()
        metadata = self._cluster.metadata
        try:
            stored = await metadata.read(ledger_id)
        except NoSuchLedgerError:
            return  # ZooKeeper answers a later request later, so the create is not on its way any more.
        except CorruptRecordError as exc:
            _log.warning("ledger %d is left, though it may have been made here: %s", ledger_id, exc)
            return
        if stored.value.creation_token == token and not await metadata.delete_at(ledger_id, stored.version):
            raise LedgerStoreUnavailableError(f"the metadata of ledger {ledger_id} have just been changed")

    async def open_and_fence(self, ledger_id: int) -> int:
        self._check_open()
        writer = self._writers.pop(ledger_id, None)
        if writer is not None:
            self._end(ledger_id, LedgerFencedError)
            try:
                await writer.close()
                self._keep(ledger_id, writer.held.value)
                return writer.lac
            except HedwigError as exc:
                _log.info("ledger %d is recovered, as its writer here cannot close it: %s", ledger_id, exc)
            finally:
                await writer.abandon()
        return (await self._recovered(ledger_id)).last_entry_id

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        writer = self._writers.get(ledger_id)
        if self._is_closed:
            return _failed(LedgerStoreClosedError())
        if writer is None:
            return _failed(self._why_refused(ledger_id))
        if entry_id != writer.next_entry_id:
            text = f"entry {entry_id} of ledger {ledger_id} is out of turn: {writer.next_entry_id} is next"
            return _failed(EntryOrderError(text))
        try:
            return writer.start_append(payload)
        except HedwigError as exc:
            return _failed(exc)

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        await self.start_append(ledger_id, entry_id, payload)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        if first_entry_id < 0 or entries_max < 1:
            raise InvalidArgumentError("reading begins at entry 0 or later, and takes at least one entry")
        self._check_open()
        metadata, last = await self._extent(ledger_id)
        last = min(last, first_entry_id + entries_max - 1)
        digest = self._digest_of(ledger_id, metadata)

        entries = range(first_entry_id, last + 1)
        async with self._telling_of_records(ledger_id):
            return await read_payloads(self._cluster, ledger_id, metadata, digest, entries, bytes_max)

    async def bytes_from(self, ledger_id: int, first_entry_id: int, *, enough: int) -> int:  # noqa: ARG002 (two reads)
        self._check_open()
        metadata, last = await self._extent(ledger_id)
        if first_entry_id > last:
            return 0
        digest = self._digest_of(ledger_id, metadata)
        async with self._telling_of_records(ledger_id):
            length = await read_length(self._cluster, ledger_id, metadata, digest, last)
            return length - await read_length(self._cluster, ledger_id, metadata, digest, first_entry_id - 1)

    @asynccontextmanager
    async def _telling_of_records(self, ledger_id: int) -> AsyncIterator[None]:
        """Raise NoSuchLedgerError for entries that cannot be read since the ledger was deleted."""
        try:
            yield
        except (CorruptEntryError, LedgerStoreUnavailableError):
            # Entries of a ledger whose bookies were repaired fail like this too. Its record tells.
            self._closed_ledgers.pop(ledger_id, None)
            await self._cluster.metadata.read(ledger_id)
            raise

    async def last_entry_id(self, ledger_id: int) -> int:
        self._check_open()
        _, last = await self._extent(ledger_id)
        return last

    async def close(self, ledger_id: int) -> int:
        self._check_open()
        writer = self._writers.get(ledger_id)
        if writer is not None:
            try:
                await writer.close()
            except LedgerFencedError:
                # Another client took it over, or the writer gave up. Recovery finds out what is in it.
                self._writers.pop(ledger_id, None)
                await writer.abandon()
            else:
                if self._writers.pop(ledger_id, None) is not None:
                    self._end(ledger_id, LedgerClosedError)
                self._keep(ledger_id, writer.held.value)
                return writer.lac
        return (await self._recovered(ledger_id)).last_entry_id

    def let_go(self, ledger_id: int) -> None:
        writer = self._writers.pop(ledger_id, None)
        if writer is not None:
            self._end(ledger_id, LedgerFencedError)
            writer.let_go()

    def is_spread(self, ledger_id: int) -> bool:  # noqa: ARG002 (each ledger is one part)
        return False

    def is_settled(self, ledger_ids: Collection[int]) -> bool:  # noqa: ARG002 (each ledger is shut out for itself)
        return True

    async def settle(self, ledger_ids: Collection[int]) -> None:
        pass

    async def delete(self, ledger_id: int) -> None:
        self._check_open()
        writer = self._writers.pop(ledger_id, None)
        if writer is not None:
            await writer.abandon()
        self._closed_ledgers.pop(ledger_id, None)
        self._end(ledger_id, NoSuchLedgerError)
        await self._cluster.metadata.delete(ledger_id)

    def ledgers(self) -> AsyncIterator[int]:
        return self._cluster.metadata.ledgers()

    async def stats(self) -> LedgerStoreStats:
        """Return what this client knows. It does not ask bookies what they store."""
        return LedgerStoreStats(
            ledgers=None,
            open_ledgers=len(self._writers),
            segments=None,
            stored_bytes=None,
            live_bytes=None,
            queued_bytes=self._cluster.pending_bytes,
            damage_count=None,
            is_full=len(self._cluster.registry.writable()) < self._options.quorums.ensemble,
        )

    async def aclose(self) -> None:
        """Finish the appends in progress. Leave the ledgers open for hubs that take them over. May be called twice."""
        self._is_closed = True
        if self._shutdown is None:
            self._shutdown = asyncio.ensure_future(self._shut_down())
        # The shutdown ends even if this caller is cancelled.
        await asyncio.shield(self._shutdown)

    async def abandon(self) -> None:
        """Close at once, for a hub that may be shut out already. The outcome of appends in progress is uncertain."""
        self._is_closed = True
        for writer in list(self._writers.values()):
            await writer.abandon()
        await self.aclose()

    async def _shut_down(self) -> None:
        writers = list(self._writers.values())
        self._writers.clear()
        await asyncio.gather(*map(_let_go, writers))
        if self._registry is not None:
            await self._registry.aclose()
        if self._links is not None:
            await self._links.aclose()

    # Inside.

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerStoreClosedError()

    async def _extent(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Return the record of a ledger, and its last acknowledged entry as far as it is known here."""
        writer = self._writers.get(ledger_id)
        if writer is not None:
            return writer.held.value, writer.lac
        metadata = self._closed_ledgers.get(ledger_id)
        if metadata is None:
            metadata = (await self._cluster.metadata.read(ledger_id)).value
        if metadata.state is LedgerState.CLOSED:
            self._keep(ledger_id, metadata)
            return metadata, metadata.last_entry_id
        digest = self._digest_of(ledger_id, metadata)
        return metadata, await read_last_confirmed(self._cluster, ledger_id, metadata, digest)

    async def _recovered(self, ledger_id: int) -> LedgerMetadata:
        held = await self._cluster.metadata.read(ledger_id)
        if held.value.state is not LedgerState.CLOSED:
            digest = self._digest_of(ledger_id, held.value)
            try:
                held = await recover(self._cluster, ledger_id, held, digest, self._key)
            except (BadVersionError, LedgerWriteError) as exc:
                # The closed record is decided once, whatever the outcome of this attempt. So report it as not done.
                text = f"cannot tell whether ledger {ledger_id} was closed: {exc}: repeat it"
                raise LedgerStoreUnavailableError(text) from exc
        self._keep(ledger_id, held.value)
        return held.value

    def _digest_of(self, ledger_id: int, metadata: LedgerMetadata) -> Digest:
        """Return the digest of a ledger's entries. Raises: LedgerStoreUnavailableError - it has another password."""
        if metadata.password is not None and metadata.password != self._options.password:
            raise LedgerStoreUnavailableError(f"ledger {ledger_id} has another password than this store")
        kind = self._options.digest if metadata.digest is None else metadata.digest
        return self._digest if kind is self._options.digest else Digest(kind, self._options.password)

    def _keep(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        self._closed_ledgers[ledger_id] = metadata
        self._closed_ledgers.move_to_end(ledger_id)
        if len(self._closed_ledgers) > _CLOSED_KEPT_MAX:
            self._closed_ledgers.popitem(last=False)

    def _end(self, ledger_id: int, error: type[LedgerError]) -> None:
        """Record why nothing can be appended to a ledger any more."""
        self._ended[ledger_id] = error
        self._ended.move_to_end(ledger_id)
        if len(self._ended) > _ENDED_KEPT_MAX:
            self._ended.popitem(last=False)

    def _why_refused(self, ledger_id: int) -> LedgerError:
        error = self._ended.get(ledger_id, LedgerFencedError)
        if error is LedgerClosedError:
            return error(f"ledger {ledger_id} is closed: make a new one")
        if error is NoSuchLedgerError:
            return error(f"there is no ledger {ledger_id}")
        return LedgerFencedError(f"ledger {ledger_id} is not open for append here: make a new one")


async def _let_go(writer: LedgerWriter) -> None:
    with suppress(HedwigError):
        await writer.drained()
    await writer.abandon()


def _failed(error: HedwigError) -> "asyncio.Future[None]":
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
