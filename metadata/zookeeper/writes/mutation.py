"""One write or delete of a table: the compare-and-set that the version given asks for, and what a refusal means.

ANY runs as a compare-and-set on the record that is there, repeated while other writers are faster. An unconditional
write, repeated after a lost reply, could undo what another writer wrote in between.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeAlias, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import BadVersionError, CorruptRecordError
from hedwig.metadata.calls.attempts import Attempts, Refusal
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.zookeeper.records.paths import Paths, RecordPath
from hedwig.metadata.zookeeper.records.records import Codec, UndecodableError
from hedwig.metadata.zookeeper.writes.cas import CreateCas, DeleteCas, UpdateCas
from hedwig.metadata.zookeeper.writes.delete_batches import DeleteBatches
from hedwig.metadata.zookeeper.writes.guarded_read import GuardedRead, NodeContent, look_closely, version_of
from hedwig.metadata.zookeeper.writes.parents import ParentForecast
from hedwig.metadata.zookeeper.writes.tokens import Tokens
from hedwig.metadata.zookeeper.writes.versions import Identity, ZnodeVersion, hints_of, identity_of
from hedwig.versions import ANY, NEW, Version, Versioned
from hedwig.zookeeper import Bridge

__all__ = ["Build", "Mutation", "TableContext"]

R = TypeVar("R")

Build: TypeAlias = Callable[[bytes | None], bytes]
"""Makes the unstamped bytes to store: for a merge from the bytes stored now, for a whole record from None."""


@dataclass(frozen=True, slots=True)
class TableContext(Generic[R]):
    """What every operation of one table works with."""

    bridge: Bridge
    deletes: DeleteBatches
    paths: Paths
    options: StoreOptions
    tokens: Tokens
    kind: RecordKind[R]
    codec: Codec[R]
    forecast: ParentForecast = field(default_factory=ParentForecast)

    def versioned(self, key: RecordKey, path: str, content: NodeContent, guard: int | None) -> Versioned[R]:
        """Return the record in a node. Raises CorruptRecordError if the node holds none."""
        version = version_of(path, content, guard, self.codec)
        try:
            return Versioned(self.decode(key, path, content), version)
        except CorruptRecordError as exc:
            exc.version = version
            raise

    def decode(self, key: RecordKey, path: str, content: NodeContent) -> R:
        try:
            record = self.codec.decode(content.data)
        except UndecodableError as exc:
            raise CorruptRecordError(f"the {self.kind.noun} of {key}, at {path}, cannot be read: {exc}") from exc
        return self.codec.fleeting(record) if content.is_ephemeral else record


class Mutation(Generic[R]):
    """One write or delete, with one deadline, and one token for all of its attempts."""

    def __init__(
        self, context: TableContext[R], key: RecordKey, record_path: RecordPath, doing: str, deadline: Deadline | None
    ) -> None:
        self._context = context
        self._key = key
        self._record_path = record_path
        self._what = f"{doing} the {context.kind.noun} of {key}"
        self._attempts = Attempts(context.options, self._what, deadline)
        self._token = context.tokens.new()

    @property
    def deadline(self) -> Deadline:
        return self._attempts.deadline

    async def write(self, build: Build, version: Version, *, merge: bool) -> Version:
        """Store what `build` makes. Raises as VersionedTable.write."""
        if version == ANY:
            return await self._write_over_any(build, merge)
        if version == NEW:
            return await self.finish_create(self.create(build))
        expected = await self._expected(version)
        cas = self._update(expected, hints_of(version, self._record_path.path), build, merge)
        refusal = await self._run(cas)
        if refusal is not None:
            self._refuse(refusal.current)
        return cas.version

    def create(self, build: Build) -> CreateCas[R]:
        """Return the create of the record that `build` makes, without running it."""
        context = self._context
        return CreateCas(
            context.bridge, context.paths, self._record_path, context.codec, self._token, build(None), context.forecast
        )

    async def finish_create(self, cas: CreateCas[R]) -> Version:
        """Run the create, unless it is done already. Raises as VersionedTable.write."""
        if not cas.is_done:
            refusal = await self._run(cas)
            if refusal is not None:
                self._refuse(refusal.current, is_new=True)
        return cas.version

    async def delete(self, version: Version) -> None:
        """Delete the record. Raises as VersionedTable.delete."""
        while version == ANY:
            sight = await self._look()
            if sight.content is None:
                raise self._context.kind.missing(self._key)
            if await self._run(self._delete(sight.content.identity, self._hints(sight.content, sight.guard))) is None:
                return
        expected = await self._expected(version)
        refusal = await self._run(self._delete(expected, hints_of(version, self._record_path.path)))
        if refusal is not None:
            self._refuse(refusal.current)

    async def _write_over_any(self, build: Build, merge: bool) -> Version:
        while True:
            sight = await self._look()
            if sight.content is None:
                cas: CreateCas[R] | UpdateCas[R] = self.create(build)
            else:
                cas = self._update(sight.content.identity, self._hints(sight.content, sight.guard), build, merge)
            if await self._run(cas) is None:
                return cas.version

    def _update(self, expected: Identity, hints: ZnodeVersion | None, build: Build, merge: bool) -> UpdateCas[R]:
        context = self._context
        return UpdateCas(context.bridge, self._record_path, context.codec, self._token, expected, hints, build, merge)

    def _delete(self, expected: Identity, hints: ZnodeVersion | None) -> DeleteCas[R]:
        context = self._context
        return DeleteCas(
            context.bridge, context.deletes, self._record_path, context.codec, self._token, expected, hints
        )

    def _hints(self, content: NodeContent, guard: int | None) -> ZnodeVersion:
        return version_of(self._record_path.path, content, guard, self._context.codec)

    async def _run(self, cas: CreateCas[R] | UpdateCas[R] | DeleteCas[R]) -> Refusal[GuardedRead] | None:
        try:
            return await cas.run(self._attempts)
        except UndecodableError as exc:
            raise CorruptRecordError(
                f"{self._what}: the content of {self._record_path.path} cannot be merged with the update: {exc}"
            ) from exc

    async def _expected(self, version: Version) -> Identity:
        """Return the identity that `version` names. Refuse a version of another kind of backend like a stale one."""
        expected = identity_of(version)
        if expected is None:
            self._refuse(await self._look())
        return expected

    async def _look(self) -> GuardedRead:
        async def attempt(deadline: Deadline) -> GuardedRead:
            return await look_closely(self._context.bridge, self._record_path, deadline)

        return await self._attempts.read(attempt)

    def _refuse(self, sight: GuardedRead | None, *, is_new: bool = False) -> NoReturn:
        kind = self._context.kind
        if sight is None or sight.content is None:
            raise kind.missing(self._key)
        try:
            current = self._context.versioned(self._key, self._record_path.path, sight.content, sight.guard)
        except CorruptRecordError as exc:
            # The write is refused all the same, but the error cannot carry the current record.
            error = kind.exists_error if is_new else BadVersionError
            raise error(f"{self._what}: it is not at the version given; {exc}") from exc
        raise kind.exists(self._key, current) if is_new else kind.stale(self._key, current)
