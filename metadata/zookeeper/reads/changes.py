"""The changes of a store in ZooKeeper: a watch over the tree of topics, on the connection that reads the records too.

Every record is a node, so whatever changes one sets an event off, whoever does it: a hub, ours or the original's, any
other program, or the end of a session that takes its ephemeral owner nodes along. What is no record has events too, and
they are left out here: the parents, whose content guards versions. Servers keep the events of a node to themselves that
the session may not read; no hub makes such nodes.

The watch is at the one server that we talk to. That is enough, since each server applies all changes, in the same
order, and tells of each as it applies it; it may only be late. So `take` has a transaction that changes nothing
committed by the ensemble, through that server. Its answer comes when the server has applied it, which is after every
change that was committed before, whichever server that was asked of, and behind the events of these. (A `sync` would
ask less: a leader that was replaced and does not know it yet answers that too.)
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kazoo.exceptions import NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.changes import ChangedRecord, ChangesLostError, ChangesUntoldError
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.zookeeper.records.paths import Paths, is_record_path, record_at
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, TreeWatch, commit_nothing, leave_tree, refusal_of, watch_tree

__all__ = ["ZookeeperChanges"]

_CHANGES_MAX: Final = 1_000_000
_CHANGES_BYTES_MAX: Final = 512 << 20
"""How many changed records are kept, and how much memory that takes; with more, reading all of them is no worse."""

_KINDS: Final[Mapping[str, RecordKind[Any]]] = {"hub": OWNERSHIP, "ledgers": PERSISTENCE, "subscribers": SUBSCRIPTIONS}


class ZookeeperChanges:
    """The Changes of one open store, as far as they are of `kinds`. Others who want to know have their own watches."""

    def __init__(
        self,
        kinds: Sequence[RecordKind[Any]],
        bridge: Bridge,
        places: Paths,
        options: StoreOptions,
        *,
        changes_max: int = _CHANGES_MAX,
    ) -> None:
        self._kinds = frozenset(kind.name for kind in kinds)
        self._bridge = bridge
        self._places = places
        self._options = options
        self._watch = TreeWatch(places.topics, is_record_path, paths_max=changes_max, bytes_max=_CHANGES_BYTES_MAX)

    async def begin(self) -> None:
        async def attempt(deadline: Deadline) -> None:
            # Before the request: the first event may be here as soon as its answer.
            self._watch.begin()
            (refusal,) = await self._bridge.send(deadline, watch_tree(self._watch.root))
            if isinstance(refusal, ZookeeperError):
                raise ChangesUntoldError(
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
        # What befell the connection before that answer came was heard of before it, so this would be None.
        while len(taken) < most and (paths := self._watch.take(most - len(taken))):
            taken += filter(None, map(self._record, paths))
        self._check()
        return taken

    async def end(self) -> None:
        was_watching = self._watch.loss is None
        self._forget("it was ended")
        if was_watching:
            # Whatever becomes of this: nobody listens any more, and without its connection there is no watch. A server
            # refuses it that knows of none, as on a connection that is new.
            with contextlib.suppress(NotAppliedError, OutcomeUnknownError, AbortedError):
                deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
                await self._bridge.send(deadline, leave_tree(self._watch.root))

    def _check(self) -> None:
        if self._watch.loss is not None:
            raise ChangesLostError(
                f"what was changed in ZooKeeper at {self._bridge.hosts} meanwhile is not known: {self._watch.loss}"
            )

    def _forget(self, why: str) -> None:
        self._bridge.ignore(self._watch)
        self._watch.lose(why)

    def _record(self, path: str) -> ChangedRecord | None:
        found = record_at(path[len(self._places.topics) + 1 :].split("/"))
        if found is None:
            return None
        name, topic, subscriber = found
        kind = _KINDS[name]
        return ChangedRecord(kind, RecordKey(topic, subscriber)) if kind.name in self._kinds else None
