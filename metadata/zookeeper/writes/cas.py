"""Compare-and-set on one znode: a create, an update and a delete, each with the judgement that follows a lost reply.

A znode's data version starts at 0 again when the node is deleted and created anew, and ZooKeeper has no condition on
the creation zxid. So every write is also conditional on the parent's data version, the guard, which each create and
delete moves. While the guard is where it was when the record was read, the node is still the same incarnation. A guard
that a neighbour moved proves nothing against the write, which looks again and repeats with the new guard.

What an answer proves: requests of a session take effect in order, and a reconnection settles what was sent before. So
any answer to a later request tells that a lost attempt was applied by then or never will be. `_doubt` says that an
attempt was lost, and that no later answer has disproved it. The rules, each with its reason:

    seen after a loss                            verdict     because
    update  same czxid, same data version        repeat      nothing was written; the doubt ends
            same czxid, next version, mine       applied
            same czxid, next version, another's  refused     that version is given once, and not to this write
            same czxid, one further, after mine  applied     the next writer noted whose version it replaced
            anything else, or absent             uncertain
    create  absent, nothing under the parent     repeat      a create would have marked the parent, unless the parent
              changed since before the first                 does not exist at all; the doubt ends
            absent, the parent's mark is mine    applied     and deleted since by a program that leaves no mark
            absent, otherwise                    uncertain   mine may have been applied and deleted: repeating it could
                                                             bring back what another has deleted
            there since before the first attempt refused     it stood in the way all the time
            mine, or first written over mine     applied
            another's, and newer                 uncertain   it may stand where mine was applied and deleted
    delete  same czxid, same data version        repeat      it is there; the doubt ends
            same czxid, another data version     refused     a node that was deleted has another czxid
            another czxid                        uncertain
            absent, the parent's mark is mine    applied
            absent, the parent moved one further refused     mine would have moved it from just there, so it was
                                                             another's
            absent, otherwise                    uncertain

A record is "mine" if it carries the token of this write. An owner record carries none: it is mine if it has the same
address and epoch at exactly the next version.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from hedwig.clock import Deadline
from hedwig.errors import LayoutMissingError, UncertainStateError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.zookeeper.records.paths import Paths, RecordPath
from hedwig.metadata.zookeeper.records.records import Codec
from hedwig.metadata.zookeeper.transactions import create_all, set_guarded
from hedwig.metadata.zookeeper.writes.delete_batches import DeleteBatches, DeleteTicket
from hedwig.metadata.zookeeper.writes.guarded_read import GuardedRead, NodeContent, answer, look_closely, version_of
from hedwig.metadata.zookeeper.writes.parents import ParentForecast
from hedwig.metadata.zookeeper.writes.versions import Identity, ZnodeVersion
from hedwig.outcomes import AbortedError, ForbiddenError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request, refusal_of

__all__ = ["CreateCas", "DeleteCas", "NewNode", "UpdateCas"]

R = TypeVar("R")

_PARENTS_AT_ONCE: Final = 64


class NewNode(NamedTuple):
    """A node to be made: its path and content, and the parent that is marked with the token."""

    path: str
    stored: bytes
    parent: str
    token: bytes


class _Cas(ABC, Generic[R]):
    def __init__(self, bridge: Bridge, record_path: RecordPath, codec: Codec[R], token: bytes) -> None:
        self._bridge = bridge
        self._record_path = record_path
        self._codec = codec
        self._token = token
        self._doubt = False
        self._done: ZnodeVersion | None = None

    async def run(self, attempts: Attempts) -> Refusal[GuardedRead] | None:
        """Run the attempts of the write; return None if it was applied.

        Raises: MetadataUnavailableError, UncertainStateError.
        """
        return await attempts.write(self._attempt, self._judge)

    @property
    def version(self) -> ZnodeVersion:
        """Return the version that the write made, once it was applied."""
        assert self._done is not None
        return self._done

    @abstractmethod
    async def _attempt(self, deadline: Deadline) -> Refusal[GuardedRead] | None:
        """Attempt the write once. A guard that a neighbour moved is no refusal: try again at once with the new one."""

    @abstractmethod
    def _judge(self, sight: GuardedRead | None) -> Verdict:
        """Decide by the table above what a refusal means."""

    async def _send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        try:
            return await self._bridge.send(deadline, *requests)
        except OutcomeUnknownError:
            self._doubt = True
            raise

    async def _look(self, deadline: Deadline) -> GuardedRead:
        try:
            return await look_closely(self._bridge, self._record_path, deadline)
        except OutcomeUnknownError as exc:
            raise NotAppliedError(str(exc)) from exc  # Losing a read leaves nothing unknown.

    def _note_done(self, identity: Identity, guard: int | None, stored: bytes) -> None:
        self._done = version_of(self._record_path.path, NodeContent(stored, *identity), guard, self._codec)

    def _is_mine(self, content: NodeContent, stored: bytes) -> bool:
        """Say whether this write made `content`, which is at exactly the version that it would have made."""
        token = self._codec.token(stored)
        return self._codec.token(content.data) == token if token else content.data == stored

    def _is_after_mine(self, content: NodeContent) -> bool:
        return self._codec.previous(content.data) == self._token


class CreateCas(_Cas[R]):
    """Create a node, if it is absent."""

    def __init__(
        self,
        bridge: Bridge,
        paths: Paths,
        record_path: RecordPath,
        codec: Codec[R],
        token: bytes,
        body: bytes,
        forecast: ParentForecast,
    ) -> None:
        super().__init__(bridge, record_path, codec, token)
        self._paths = paths
        self._forecast = forecast
        self._stored = codec.stamp(body, token, b"")
        self._zxid_before = bridge.zxid_seen
        self._shared_loss: AbortedError | OutcomeUnknownError | None = None

    @property
    def node(self) -> NewNode:
        """Return the node that this create makes."""
        return NewNode(self._record_path.path, self._stored, self._record_path.parent, self._token)

    @property
    def is_done(self) -> bool:
        return self._done is not None

    def note_shared(self, czxid: int, guard: int) -> None:
        """Record that the create was applied in a transaction with others; see SharedCreates."""
        self._note_done((czxid, 0), guard, self._stored)

    def note_shared_loss(self, loss: AbortedError | OutcomeUnknownError) -> None:
        """Record that such a transaction was sent as the first attempt, and how its answer was lost."""
        self._doubt = True
        self._shared_loss = loss

    async def _attempt(self, deadline: Deadline) -> Refusal[GuardedRead] | None:
        if self._shared_loss is not None:
            loss, self._shared_loss = self._shared_loss, None
            raise loss
        while True:
            if self._doubt:
                sight = await self._look(deadline)
                if sight.content is not None:
                    return Refusal(sight)
                if sight.mark == self._token:
                    self._note_done((sight.mark_zxid, 0), sight.guard, self._stored)
                    return None
                if sight.guard is not None and sight.mark_zxid > self._zxid_before:
                    return Refusal(sight)
                self._doubt = False
            refusal = await self._create(deadline)
            if refusal is None:
                return None
            if isinstance(refusal, NodeExistsError):
                sight = await self._look(deadline)
                if sight.content is not None:
                    return Refusal(sight)
                # The node was deleted since. This attempt was answered, so repeating it is safe.

    async def _create(self, deadline: Deadline) -> NodeExistsError | None:
        """Create the node, and the nodes above it as needed; return the error if it exists.

        The parents are no part of the compare-and-set. They are never deleted while the store is in use, and it does
        not matter which writer makes them.
        """
        parent, node = self._record_path.parent, (self._record_path.path, self._stored)
        request = create_all([node], {parent: self._token})
        refusal: NodeExistsError | NoNodeError | None = None
        if self._forecast.is_missing:
            (results,) = await self._send(deadline, create_all([(parent, b""), node], {parent: self._token}))
            refusal = self._refusal(results, NoNodeError)
            if refusal is None:
                return None
            # The node that exists is the parent: without it, nothing could be below it.
            self._forecast.is_missing = not isinstance(refusal, NodeExistsError)
        if not isinstance(refusal, NoNodeError):
            (results,) = await self._send(deadline, request)
            refusal = self._refusal(results, NoNodeError)
            self._forecast.is_missing = isinstance(refusal, NoNodeError)
        if isinstance(refusal, NoNodeError):
            # Mostly only the topic is new. If that is not enough, make every node from the top.
            above = list(self._paths.above(self._record_path))
            new = above[-2:] if above[-1].endswith("/subscribers") else above[-1:]
            *_, results = await self._send(deadline, *map(_create_empty, new), request)
            refusal = self._refusal(results, NoNodeError)
        if isinstance(refusal, NoNodeError):
            is_forbidden = await self._create_above(above, deadline)
            (results,) = await self._send(deadline, request)
            if is_forbidden and isinstance(refusal_of(results), NoNodeError):
                raise ForbiddenError("an access control list in ZooKeeper does not permit nodes to be made above it")
            refusal = self._refusal(results)
        return refusal if isinstance(refusal, NodeExistsError) else None

    async def _create_above(self, above: Sequence[str], deadline: Deadline) -> bool:
        """Create the nodes above; return whether ZooKeeper forbade one, which may exist all the same."""
        is_forbidden = False
        for start in range(0, len(above), _PARENTS_AT_ONCE):
            batch = above[start : start + _PARENTS_AT_ONCE]
            try:
                answers = await self._bridge.send(deadline, *map(_create_empty, batch))
            except OutcomeUnknownError as exc:
                raise NotAppliedError(str(exc)) from exc  # Only nodes above are in doubt, not this write.
            refusals = [refusal_of(results) for results in answers]
            is_forbidden |= any(isinstance(refusal, NoAuthError) for refusal in refusals)
            if start == 0 and isinstance(refusals[0], NoNodeError):
                raise LayoutMissingError(
                    f"the metadata under {self._paths.prefix} has been removed; make it again with: "
                    "hedwig-admin metadata format"
                )
        return is_forbidden

    def _refusal(self, results: Any, *expected: type[NoNodeError]) -> NodeExistsError | NoNodeError | None:
        refusal: NodeExistsError | NoNodeError | None = answer(refusal_of(results), NodeExistsError, *expected)
        if refusal is None:
            # All changes of a transaction share one zxid, so the node's czxid is that of the change to its parent.
            self._note_done((results[-1].mzxid, 0), results[-1].version, self._stored)
        return refusal

    def _judge(self, sight: GuardedRead | None) -> Verdict:
        assert sight is not None
        content = sight.content
        if not self._doubt:
            return Verdict.REFUSED
        if content is None:
            return Verdict.UNCERTAIN
        if content.czxid <= self._zxid_before:
            return Verdict.REFUSED
        mine = content.data_version == 0 and self._is_mine(content, self._stored)
        if mine or (content.data_version == 1 and self._is_after_mine(content)):
            self._note_done((content.czxid, 0), sight.guard, self._stored)
            return Verdict.APPLIED
        return Verdict.UNCERTAIN


class UpdateCas(_Cas[R]):
    """Set a node's data, if it still is at the version given.

    `build` makes the unstamped record out of the stored bytes. Unless the write `merges`, it may get None for them.
    """

    def __init__(
        self,
        bridge: Bridge,
        record_path: RecordPath,
        codec: Codec[R],
        token: bytes,
        expected: Identity,
        hints: ZnodeVersion | None,
        build: Callable[[bytes | None], bytes],
        merges: bool,
    ) -> None:
        super().__init__(bridge, record_path, codec, token)
        self._expected = expected
        self._build = build
        self._guard: int | None = None
        self._stored = b""
        if hints is not None and not (merges and hints.stored is None):
            self._guard = hints.guard
            self._prepare(hints.stored, hints.token)

    async def _attempt(self, deadline: Deadline) -> Refusal[GuardedRead] | None:
        czxid, data_version = self._expected
        while True:
            if self._guard is None:
                sight = await self._look(deadline)
                if sight.content is None or sight.content.identity != self._expected:
                    return Refusal(sight)
                if sight.guard is None:
                    continue  # Both nodes were created between the reads of the two.
                if not self._stored:
                    self._prepare(sight.content.data, self._codec.token(sight.content.data))
                self._guard = sight.guard
                self._doubt = False
            request = set_guarded(
                self._record_path.path, self._stored, data_version, (self._record_path.parent, self._guard)
            )
            (results,) = await self._send(deadline, request)
            if answer(refusal_of(results), BadVersionError, NoNodeError) is None:
                self._note_done((czxid, data_version + 1), self._guard, self._stored)
                self._check_incarnation(results[1].czxid)
                return None
            self._guard = None

    def _prepare(self, stored: bytes | None, previous: bytes) -> None:
        """Build the bytes to send, once: every attempt of a write sends the same."""
        self._stored = self._codec.stamp(self._build(stored), self._token, previous)

    def _check_incarnation(self, czxid: int) -> None:
        """Catch a writer that deletes and creates without moving the guard: the original hub, or a wiped store."""
        if czxid != self._expected[0]:
            raise UncertainStateError(
                f"another program deleted {self._record_path.path} and created it anew, without a trace in its parent; "
                "this write went into the new record; read before deciding"
            )

    def _judge(self, sight: GuardedRead | None) -> Verdict:
        assert sight is not None
        if not self._doubt:
            return Verdict.REFUSED
        content = sight.content
        czxid, data_version = self._expected
        if content is None or content.czxid != czxid:
            return Verdict.UNCERTAIN
        is_next = content.data_version == data_version + 1
        mine = is_next and self._is_mine(content, self._stored)
        if mine or (content.data_version == data_version + 2 and self._is_after_mine(content)):
            self._note_done((czxid, data_version + 1), sight.guard, self._stored)
            return Verdict.APPLIED
        return Verdict.REFUSED if is_next else Verdict.UNCERTAIN


class DeleteCas(_Cas[R]):
    """Delete a node, if it still is at the version given."""

    def __init__(
        self,
        bridge: Bridge,
        deletes: DeleteBatches,
        record_path: RecordPath,
        codec: Codec[R],
        token: bytes,
        expected: Identity,
        hints: ZnodeVersion | None,
    ) -> None:
        super().__init__(bridge, record_path, codec, token)
        self._deletes = deletes
        self._expected = expected
        self._guard = None if hints is None else hints.guard
        self._lost: DeleteTicket | None = None

    async def _attempt(self, deadline: Deadline) -> Refusal[GuardedRead] | None:
        while True:
            if self._guard is None or self._doubt:
                sight = await self._look(deadline)
                if sight.content is None or sight.content.identity != self._expected:
                    return Refusal(sight)
                self._guard = sight.guard
                self._doubt = False
                if self._guard is None:
                    continue
            ticket = DeleteTicket(self._record_path, self._expected[1], self._guard, deadline)
            try:
                if await self._deletes.delete(ticket):
                    return None
            except OutcomeUnknownError:
                self._doubt = True
                self._lost = ticket
                raise
            self._guard = None

    def _judge(self, sight: GuardedRead | None) -> Verdict:
        assert sight is not None
        if not self._doubt:
            return Verdict.REFUSED
        assert self._lost is not None
        if sight.content is not None:
            return Verdict.REFUSED if sight.content.czxid == self._expected[0] else Verdict.UNCERTAIN
        if sight.mark == self._lost.mark:
            return Verdict.APPLIED
        return Verdict.REFUSED if sight.guard == self._lost.guard + 1 else Verdict.UNCERTAIN


def _create_empty(path: str) -> Request:
    return create_all([(path, b"")])
