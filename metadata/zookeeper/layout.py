"""The layout record of the original: which of its metadata managers laid a store out, and in which version.

The version is the major format. The original knows version 1 only, and its hubs refuse to start with another.
"""

import re
from typing import Final

from google.protobuf import text_format
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from hedwig.clock import Deadline
from hedwig.errors import CorruptRecordError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.layout import FORMAT_MAJOR, Layout, check_layout
from hedwig.metadata.zookeeper.named_records import list_names
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.metadata.zookeeper.transactions import create_all, set_guarded
from hedwig.metadata.zookeeper.writes.guarded_read import answer, look_before, reading
from hedwig.outcomes import NotAppliedError
from hedwig.wire import pubsub_pb2 as pb
from hedwig.zookeeper import Bridge, exists, get, refusal_of

__all__ = ["KIND", "LAYOUT_BYTES", "has_topics", "parse_layout", "read_layout", "record_format", "write_layout"]

KIND: Final = "zookeeper"

_MANAGER: Final = "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"

LAYOUT_BYTES: Final = text_format.MessageToString(
    pb.ManagerMeta(managerImpl=_MANAGER, managerVersion=FORMAT_MAJOR)
).encode()
_VERSION: Final = re.compile(rb"(managerVersion\s*:\s*)\d+")


def parse_layout(data: bytes, path: str) -> Layout:
    """Return the layout in the data of a layout node. Another manager of the original is a kind of its own.

    Raises: CorruptRecordError - it is no ManagerMeta.
    """
    try:
        meta = text_format.Parse(data.decode(), pb.ManagerMeta(), allow_unknown_field=True)
    except (UnicodeDecodeError, text_format.ParseError) as exc:
        raise CorruptRecordError(f"the layout record at {path} cannot be read: {exc}") from exc
    return Layout(kind=KIND if meta.managerImpl == _MANAGER else meta.managerImpl, major=meta.managerVersion, minor=0)


async def read_layout(bridge: Bridge, paths: Paths, options: StoreOptions) -> Layout | None:
    """Return the layout record, or None if there is none."""

    async def attempt(deadline: Deadline) -> bytes | None:
        (node,) = await bridge.send(deadline, get(paths.layout))
        return None if isinstance(answer(node, NoNodeError), NoNodeError) else node[0] or b""

    data = await reading(options, f"reading the layout record {paths.layout}", attempt)
    return None if data is None else parse_layout(data, paths.layout)


async def has_topics(bridge: Bridge, paths: Paths, options: StoreOptions) -> bool:
    """Say whether the node above all topics exists."""

    async def attempt(deadline: Deadline) -> bool:
        (stat,) = await bridge.send(deadline, exists(paths.topics))
        return answer(stat) is not None

    return await reading(options, f"looking for {paths.topics}", attempt)


async def write_layout(bridge: Bridge, paths: Paths, options: StoreOptions) -> None:
    """Create the missing nodes of a store: those above, the layout record, and `topics`.

    Nodes are only ever created, so a caller may repeat this, and several callers may run it at once.
    """
    steps = paths.layout.split("/")
    above = ["/".join(steps[:end]) for end in range(2, len(steps))]
    wanted = [*((path, b"") for path in above), (paths.layout, LAYOUT_BYTES), (paths.topics, b"")]

    async def attempt(deadline: Deadline) -> None:
        for results in await bridge.send(deadline, *(create_all([node]) for node in wanted)):
            answer(refusal_of(results), NodeExistsError)

    await reading(options, f"making the store under {paths.prefix}", attempt)


async def record_format(
    bridge: Bridge, paths: Paths, options: StoreOptions, url: str, major: int, unless: str | None
) -> bool:
    """As Backend.set_format. Each write gives the layout node a new version, also if it changes nothing."""

    async def attempt(deadline: Deadline) -> Refusal[None] | None:
        content = await look_before(bridge, paths.layout, deadline)
        layout = None if content is None else parse_layout(content.data, paths.layout)
        check_layout(layout, kind=KIND, url=url)
        assert content is not None, "it has a layout"
        if unless is not None and await list_names(bridge, paths, unless, deadline):
            return Refusal(None)
        data = _VERSION.sub(rb"\g<1>%d" % major, content.data)
        (results,) = await bridge.send(deadline, set_guarded(paths.layout, data, content.data_version))
        if answer(refusal_of(results), BadVersionError, NoNodeError) is None:
            return None
        if unless is None:
            raise NotAppliedError("another process recorded a format at the same time")
        return Refusal(None)

    # If the answer to an earlier attempt was lost, another call has undone what that did, or is about to.
    attempts = Attempts(options, f"recording format {major} in {paths.layout}")
    return await attempts.write(attempt, lambda _: Verdict.REFUSED) is None
