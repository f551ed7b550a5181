"""A hub as its nodes in ZooKeeper show it, and the content of these nodes.

The host node is the original's, a HubLoadData in text format. The endpoint node is ours, in JSON. The original never
reads it.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import text_format

from hedwig.errors import InvalidArgumentError
from hedwig.hub.liveness.process import ProcessMark
from hedwig.model import HubInfo
from hedwig.wire import pubsub_pb2 as pb

__all__ = ["DRAINING_LOAD", "Endpoint", "LiveHub", "decode_load", "encode_load"]

DRAINING_LOAD: Final = 1 << 40
"""The load of a hub that gives up its topics. Our hubs pass it over, and for the original's it is the most loaded one.

The original adds up the loads of all hubs in 64 bits. This load is small enough for that: the original finds a large
mean, and keeps its topics.
"""


@dataclass(frozen=True, slots=True)
class LiveHub:
    """An incarnation of a hub, its load in topics, and what its endpoint node says if that was read."""

    info: HubInfo
    load: int = 0
    admin: str | None = None
    """host:port of its admin endpoint."""
    reads_shared_logs: bool = False
    """Whether it says so. Hubs of the original, and ours up to release 0.2.0, do not."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """The addresses of its named listeners, as redirects spell them."""

    @property
    def is_draining(self) -> bool:
        return self.load >= DRAINING_LOAD


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The content of a hub's endpoint node: which process it is, and what it can.

    `admin` is host:port of its admin endpoint. `listeners` has the addresses of its named listeners.
    """

    admin: str | None
    process: ProcessMark | None
    reads_shared_logs: bool
    listeners: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the content of the node."""
        process = self.process and {
            "boot": self.process.boot,
            "pid_namespace": self.process.pid_namespace,
            "pid": self.process.pid,
            "started": self.process.started,
        }
        content: dict[str, Any] = {"admin": self.admin, "process": process, "shared_logs": self.reads_shared_logs}
        if self.listeners:
            content["listeners"] = dict(self.listeners)
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Endpoint":
        """Read the content of a node. Leave out parts that cannot be read: they may come from a newer release."""
        try:
            content = json.loads(data)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            return cls(None, None, reads_shared_logs=False)
        admin = content.get("admin")
        return cls(
            admin if isinstance(admin, str) else None,
            _process(content.get("process")),
            reads_shared_logs=content.get("shared_logs") is True,
            listeners=_listeners(content.get("listeners")),
        )


def encode_load(load: int) -> bytes:
    """Return the content of a host node, byte for byte as the original writes it."""
    return text_format.MessageToString(pb.HubLoadData(numTopics=load)).encode()


def decode_load(data: bytes) -> int:
    """Return the load in a host node, which holds a message or a bare number; 0 if it cannot be read."""
    try:
        text = data.decode().strip()
        if text.isascii() and text.isdigit():
            return int(text)
        return int(text_format.Parse(text, pb.HubLoadData(), allow_unknown_field=True).numTopics)
    except (UnicodeDecodeError, text_format.ParseError):
        return 0


def _listeners(content: Any) -> Mapping[str, str]:
    listeners = {}
    for name, address in content.items() if isinstance(content, dict) else ():
        with contextlib.suppress(InvalidArgumentError, AttributeError):
            listeners[name] = HubInfo.at(address).address
    return listeners


def _process(content: Any) -> ProcessMark | None:
    match content:
        case {"boot": str(boot), "pid_namespace": str(namespace), "pid": int(pid), "started": int(started)}:
            return ProcessMark(boot, namespace, pid, started)
    return None
