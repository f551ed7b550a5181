"""The named records of a store in ZooKeeper: nodes beside the layout record, which the original never looks at.

A node's data version is a sufficient condition here: a node that was deleted is not made again, so versions do not
repeat.
"""

from collections.abc import Sequence
from functools import partial

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import LayoutMissingError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.metadata.zookeeper.transactions import create_all, set_guarded
from hedwig.metadata.zookeeper.writes.guarded_read import NodeContent, answer, look_alone, look_before, reading
from hedwig.zookeeper import Bridge, children, delete, refusal_of, sync

__all__ = ["ZookeeperNamedRecords", "list_names"]


class ZookeeperNamedRecords:
    """The NamedRecords of one open store."""

    def __init__(self, bridge: Bridge, paths: Paths, options: StoreOptions) -> None:
        self._bridge = bridge
        self._paths = paths
        self._options = options

    async def read(self, name: str) -> bytes | None:
        path = self._paths.named(name)
        look = partial(look_alone, self._bridge, path)
        return _data(await reading(self._options, f"reading {path}", look))

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        path = self._paths.named(name)

        async def attempt(deadline: Deadline) -> Refusal[NodeContent] | None:
            content = await look_before(self._bridge, path, deadline)
            if _data(content) != expected:
                return Refusal(content)
            request = create_all([(path, value)]) if content is None else set_guarded(path, value, content.data_version)
            (results,) = await self._bridge.send(deadline, request)
            refusal = answer(refusal_of(results), BadVersionError, NodeExistsError, NoNodeError)
            if isinstance(refusal, NoNodeError) and content is None:
                raise LayoutMissingError(
                    f"the metadata under {self._paths.prefix} has been removed; make it again with: "
                    "hedwig-admin metadata format"
                )
            # Another client was faster between the look and the write, and has stored something else, or deleted it.
            return None if refusal is None else Refusal(content)

        def judge(content: NodeContent | None) -> Verdict:
            return Verdict.APPLIED if _data(content) == value else Verdict.UNCERTAIN

        return await Attempts(self._options, f"writing {path}").write(attempt, judge) is None

    async def delete(self, name: str, expected: bytes) -> bool:
        path = self._paths.named(name)

        async def attempt(deadline: Deadline) -> Refusal[NodeContent] | None:
            content = await look_before(self._bridge, path, deadline)
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
        attempt = partial(list_names, self._bridge, self._paths, prefix)
        return sorted(await reading(self._options, f"listing {self._paths.named(prefix)}...", attempt))


async def list_names(bridge: Bridge, paths: Paths, prefix: str, deadline: Deadline) -> list[str]:
    """Return the names that begin with `prefix`, as of now at the leader. Raises as `Bridge.send`."""
    folder = paths.named("").rstrip("/")
    caught_up, names = await bridge.send(deadline, sync(folder), children(folder))
    answer(caught_up)
    names = answer(names, NoNodeError)
    return [] if isinstance(names, NoNodeError) else [name for name in names if name.startswith(prefix)]


def _data(content: NodeContent | None) -> bytes | None:
    return None if content is None else content.data
