"""The changes of a store in ZooKeeper: a watch over the tree of topics, on the connection that reads the records too.

Every record is a node, so every change of a record causes an event. Its writer may be a hub, ours or the original's, or
any other program. The end of a session, which removes its ephemeral owner nodes, causes events too. The parents, whose
content guards versions, have events as well, which are left out here. A server reports no events of a node that the
session may not read; no hub makes such nodes.

The watch is at the one server that we are connected to. That is enough, since each server applies all changes, in the
same order, and reports each as it applies it. It may only be late. So `take` has the ensemble commit a transaction that
changes nothing, through that server. The answer comes when the server has applied it. That is after every change
committed before, through any server, and after the events of these changes. (A `sync` would prove less: a leader that
was replaced and does not know it yet answers that too.)
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kazoo.exceptions import NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.changes import ChangedRecord, ChangesLostError, ChangesUnsupportedError
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.zookeeper.records.paths import Paths, is_record_path, record_at
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, TreeWatch, commit_nothing, leave_tree, refusal_of, watch_tree

__all__ = ["ZookeeperChanges"]

_CHANGES_MAX: Final = 1_000_000
_CHANGES_BYTES_MAX: Final = 512 << 20
"""The most changed records kept, and the most memory for them. With more, reading all records is no worse."""

_KINDS: Final[Mapping[str, RecordKind[Any]]] = {"hub": OWNERSHIP, "ledgers": PERSISTENCE, "subscribers": SUBSCRIPTIONS}


class ZookeeperChanges:
    """The Changes of one open store to records of `kinds`. Other readers of changes have their own watches."""

    def __init__(
        self,
        kinds: Sequence[RecordKind[Any]],
        bridge: Bridge,
        paths: Paths,
        options: StoreOptions,
        *,
        changes_max: int = _CHANGES_MAX,
    ) -> None:
        self._kinds = frozenset(kind.name for kind in kinds)
        self._bridge = bridge
        self._paths = paths
        self._options = options
        self._watch = TreeWatch(paths.topics, is_record_path, paths_max=changes_max, bytes_max=_CHANGES_BYTES_MAX)

    async def begin(self) -> None:
        async def attempt(deadline: Deadline) -> None:
            # Before the request: the first event may arrive as early as the answer.
            self._watch.begin()
            (refusal,) = await self._bridge.send(deadline, watch_tree(self._watch.root))
            if isinstance(refusal, ZookeeperError):
                raise ChangesUnsupportedError(
                    f"ZooKeeper at {self._bridge.hosts} cannot watch a whole tree, as servers from release 3.6 on can "
                    f"({type(refusal).__name__})"
                )
            if self._watch.loss is not None:
                raise OutcomeUnknownError(self._watch.loss)

        self._bridge.listen(self._watch)
        try:
            await reading(self._options, f"watching {self._watch.root}", attempt)
        except BaseException:
            self._forget("it was not begun")
            raise

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        async def attempt(deadline: Deadline) -> None:
            self._check()
            (results,) = await self._bridge.send(deadline, commit_nothing(self._watch.root))
            answer(refusal_of(results), NoNodeError)

        await reading(self._options, f"taking what changed below {self._watch.root}", attempt)
        taken: list[ChangedRecord] = []
        # A loss of the connection before that answer is known by now, and then the watch returns None.
        while len(taken) < most and (paths := self._watch.take(most - len(taken))):
            taken += filter(None, map(self._record, paths))
        self._check()
        return taken

    async def end(self) -> None:
        was_watching = self._watch.loss is None
        self._forget("it was ended")
        if was_watching:
            # The outcome does not matter: nobody listens any more, and the watch ends with its connection. A server
            # that has no such watch, as on a new connection, refuses this.
            with contextlib.suppress(NotAppliedError, OutcomeUnknownError, AbortedError):
                deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
                await self._bridge.send(deadline, leave_tree(self._watch.root))

    def _check(self) -> None:
        if self._watch.loss is not None:
            raise ChangesLostError(
                f"the latest changes in ZooKeeper at {self._bridge.hosts} are unknown: {self._watch.loss}"
            )

    def _forget(self, why: str) -> None:
        self._bridge.ignore(self._watch)
        self._watch.lose(why)

    def _record(self, path: str) -> ChangedRecord | None:
        parts = record_at(path[len(self._paths.topics) + 1 :].split("/"))
        if parts is None:
            return None
        name, topic, subscriber = parts
        kind = _KINDS[name]
        return ChangedRecord(kind, RecordKey(topic, subscriber)) if kind.name in self._kinds else None
