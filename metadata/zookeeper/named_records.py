"""The named records of a store in ZooKeeper: nodes beside the layout record, which the original never looks at.

A node's data version is a sufficient condition here: a node that was deleted is not made again, so versions do not
repeat.
"""

from collections.abc import Sequence

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import LayoutMissingError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.metadata.zookeeper.transactions import create_all, set_guarded
from hedwig.metadata.zookeeper.writes.guarded_read import NodeContent, answer, content_of, reading
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, children, delete, get, refusal_of, sync

__all__ = ["ZookeeperNamedRecords"]


class ZookeeperNamedRecords:
    """The NamedRecords of one open store."""

    def __init__(self, bridge: Bridge, paths: Paths, options: StoreOptions) -> None:
        self._bridge = bridge
        self._paths = paths
        self._options = options

    async def read(self, name: str) -> bytes | None:
        path = self._paths.named(name)
        return _data(await reading(self._options, f"reading {path}", lambda deadline: self._look(path, deadline)))

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        path = self._paths.named(name)

        async def attempt(deadline: Deadline) -> Refusal[NodeContent] | None:
            content = await self._look_before(path, deadline)
            if _data(content) != expected:
                return Refusal(content)
            request = create_all([(path, value)]) if content is None else set_guarded(path, value, content.data_version)
            (results,) = await self._bridge.send(deadline, request)
            refusal = answer(refusal_of(results), BadVersionError, NodeExistsError, NoNodeError)
            if isinstance(refusal, NoNodeError):
                raise LayoutMissingError(
                    f"the metadata under {self._paths.prefix} has been removed; make it again with: "
                    "hedwig-admin metadata format"
                )
            # Another writer was faster between the look and the write, and has stored something else.
            return None if refusal is None else Refusal(content)

        def judge(content: NodeContent | None) -> Verdict:
            return Verdict.APPLIED if _data(content) == value else Verdict.UNCERTAIN

        return await Attempts(self._options, f"writing {path}").write(attempt, judge) is None

    async def delete(self, name: str, expected: bytes) -> bool:
        path = self._paths.named(name)

        async def attempt(deadline: Deadline) -> Refusal[NodeContent] | None:
            content = await self._look_before(path, deadline)
            if content is None or content.data != expected:
                return Refusal(content)
            (result,) = await self._bridge.send(deadline, delete(path, content.data_version))
            refusal = answer(result, BadVersionError, NoNodeError)
            # Another client was faster between the look and the delete.
            return Refusal(content) if isinstance(refusal, ZookeeperError) else None

        def judge(content: NodeContent | None) -> Verdict:
            return Verdict.APPLIED if content is None else Verdict.UNCERTAIN

        return await Attempts(self._options, f"deleting {path}").write(attempt, judge) is None

    async def names(self, prefix: str) -> Sequence[str]:
        path = self._paths.named(prefix)
        folder = path.rpartition("/")[0]

        async def attempt(deadline: Deadline) -> list[str]:
            caught_up, names = await self._bridge.send(deadline, sync(folder), children(folder))
            answer(caught_up)
            names = answer(names, NoNodeError)
            return [] if isinstance(names, NoNodeError) else [name for name in names if name.startswith(prefix)]

        return sorted(await reading(self._options, f"listing {path}...", attempt))

    async def _look(self, path: str, deadline: Deadline) -> NodeContent | None:
        caught_up, node = await self._bridge.send(deadline, sync(path), get(path))
        answer(caught_up)
        return content_of(node)

    async def _look_before(self, path: str, deadline: Deadline) -> NodeContent | None:
        try:
            return await self._look(path, deadline)
        except OutcomeUnknownError as exc:
            raise NotAppliedError(str(exc)) from exc  # Losing a read leaves nothing unknown.


def _data(content: NodeContent | None) -> bytes | None:
    return None if content is None else content.data
