"""The probe of ZooKeeper: kazoo, on a connection of its own, and the original's messages."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from hedwig.metadata import RecordKey
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing.probe import GARBAGE, StoredValue
from hedwig.model import SubscriberId, Topic
from hedwig.wire import pubsub_pb2 as pb

__all__ = ["ZooKeeperProbe"]

T = TypeVar("T")

_CONNECT_S: Final = 20.0
_NODES: Final = {OWNERSHIP.name: "hub", PERSISTENCE.name: "ledgers"}
_RESERVED: Final = frozenset({"hub", "ledgers", "subscribers"})
_ESCAPE: Final = "%="
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_MANAGER: Final = "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"
_NEWER_FIELD: Final = 2001
# Tag (two bytes of the number, wire type 2), length, content.
_NEWER: Final = b"\x8a\x7d\x06newer\x00"
_NEWER_LINES: Final = 'newerNumber: 7\nnewerMessage {\n  inner: "x:y"\n}\n'


class ZooKeeperProbe:
    """A Probe of the nodes under one prefix."""

    def __init__(self, address: str, root: str) -> None:
        self._address = address
        self._root = root
        self._client: KazooClient | None = None

    async def _ask(self, question: Callable[[KazooClient], T]) -> T:
        return await asyncio.to_thread(lambda: question(self._connected()))

    def _connected(self) -> KazooClient:
        if self._client is None:
            self._client = KazooClient(hosts=self._address, timeout=_CONNECT_S)
            self._client.start(timeout=_CONNECT_S)
        return self._client

    async def cells(self, kind: RecordKind[Any], key: RecordKey) -> Mapping[str, StoredValue]:
        def get(client: KazooClient) -> Mapping[str, StoredValue]:
            try:
                data, stat = client.get(self._path(kind, key))
            except NoNodeError:
                return {}
            return {"data": StoredValue(data, stat.mzxid)}

        return await self._ask(get)

    async def live(self, kind: RecordKind[Any]) -> set[tuple[Topic, SubscriberId | None]]:
        def walk(client: KazooClient) -> set[tuple[Topic, SubscriberId | None]]:
            return set(self._below(client, kind, ()))

        return await self._ask(walk)

    def _below(
        self, client: KazooClient, kind: RecordKind[Any], components: tuple[str, ...]
    ) -> Iterator[tuple[Topic, SubscriberId | None]]:
        waiting = [components]
        while waiting:
            above = waiting.pop()
            path = "/".join((self._root, "topics", *above))
            for child in client.get_children(path):
                if child not in _RESERVED or not above:
                    waiting.append((*above, child))
                elif child == "subscribers" and kind is SUBSCRIPTIONS:
                    for name in client.get_children(f"{path}/subscribers"):
                        yield Topic(_plain(above)), SubscriberId(_plain((name,)))
                elif child == _NODES.get(kind.name):
                    yield Topic(_plain(above)), None

    async def stored_names(self, kind: RecordKind[Any], key: RecordKey) -> list[bytes]:
        path = self._path(kind, key).removeprefix(f"{self._root}/topics/")
        return [path.encode(), *(component.encode() for component in path.split("/"))]

    async def preferences(self, key: RecordKey) -> Any:
        message = await self._subscription(key)
        return message.preferences.SerializeToString() if message.HasField("preferences") else None

    async def state(self, key: RecordKey) -> Any:
        message = await self._subscription(key)
        return message.state.SerializeToString() if message.HasField("state") else None

    async def _subscription(self, key: RecordKey) -> pb.SubscriptionData:
        return pb.SubscriptionData.FromString((await self.cells(SUBSCRIPTIONS, key))["data"].value)

    async def remove(self, kind: RecordKind[Any], key: RecordKey) -> None:
        await self._ask(lambda client: client.delete(self._path(kind, key)))

    async def corrupt(self, kind: RecordKind[Any], key: RecordKey) -> None:
        await self._set(kind, key, GARBAGE)

    async def corrupt_version(self, kind: RecordKind[Any], key: RecordKey) -> bool:
        return False

    async def add_unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        data = (await self.cells(kind, key))["data"].value
        if kind is OWNERSHIP:
            await self._set(kind, key, data + _NEWER_LINES.encode())
        else:
            message = _message(kind, data)
            for part in (message, *_parts(message)):
                part.MergeFromString(_NEWER)
            await self._set(kind, key, message.SerializeToString())
        return await self.unknown_fields(kind, key)

    async def unknown_fields(self, kind: RecordKind[Any], key: RecordKey) -> Any:
        data = (await self.cells(kind, key))["data"].value
        if kind is OWNERSHIP:
            return [line for line in data.decode().splitlines() if not line.startswith(("hostname:", "czxid:"))]
        message = _message(kind, data)
        return [_newer_fields(part) for part in (message, *_parts(message))]

    async def _set(self, kind: RecordKind[Any], key: RecordKey, data: bytes) -> None:
        await self._ask(lambda client: client.set(self._path(kind, key), data))

    async def write_layout(self, kind: str | None, major: int, minor: int) -> None:
        # The original's record has no field for a minor format, so a newer one adds a field.
        newer = f"newerMinor: {minor}\n" if minor else ""
        text = f'managerImpl: "{kind or _MANAGER}"\nmanagerVersion: {major}\n{newer}'
        await self._ask(lambda client: client.set(f"{self._root}/managers/METADATA/LAYOUT", text.encode()))

    async def damage_layout(self) -> None:
        await self._ask(lambda client: client.set(f"{self._root}/managers/METADATA/LAYOUT", GARBAGE))

    async def named(self, name: str) -> bytes | None:
        path = self._named(name)

        def get(client: KazooClient) -> bytes | None:
            if client.exists(path) is None:
                return None
            data: bytes = client.get(path)[0]
            return data

        return await self._ask(get)

    async def set_named(self, name: str, value: bytes | None) -> None:
        path = self._named(name)

        def change(client: KazooClient) -> None:
            if value is not None:
                client.set(path, value)
            elif client.exists(path) is not None:
                client.delete(path)

        await self._ask(change)

    def _named(self, name: str) -> str:
        return f"{self._root}/managers/METADATA/{name}"

    async def drop_structure(self) -> str:
        await self._ask(lambda client: client.delete(f"{self._root}/topics", recursive=True))
        return f"{self._root}/topics"

    async def close(self) -> None:
        def stop() -> None:
            if self._client is not None:
                self._client.stop()
                self._client.close()

        await asyncio.to_thread(stop)

    def _path(self, kind: RecordKind[Any], key: RecordKey) -> str:
        topic = f"{self._root}/topics/{_topic_path(key.topic)}"
        if key.subscriber is None:
            return f"{topic}/{_NODES[kind.name]}"
        return f"{topic}/subscribers/{_subscriber_component(key.subscriber)}"


def _message(kind: RecordKind[Any], data: bytes) -> Any:
    return (pb.LedgerRanges if kind is PERSISTENCE else pb.SubscriptionData).FromString(data)


def _parts(message: Any) -> list[Message]:
    """Return the messages inside a record that a newer format may add fields to."""
    return list(message.ranges) if isinstance(message, pb.LedgerRanges) else [message.state, message.preferences]


def _newer_fields(message: Message) -> list[Any]:
    fields = UnknownFieldSet(message)
    unknown = [fields[index] for index in range(len(fields))]
    return [field.data for field in unknown if field.field_number == _NEWER_FIELD]


def _legal(text: str) -> bool:
    """Return whether ZooKeeper accepts it: no control or private-use characters, none beyond 16 bits."""
    return not any(
        code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0 for code in map(ord, text)
    )


def _components(name: bytes) -> list[str] | None:
    """Return the components of a name that is stored unescaped, else None."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    components = text.split("/")
    if not _legal(text) or any(one in ("", ".", "..") or one.startswith(_ESCAPE) for one in components):
        return None
    return components


def _topic_path(name: bytes) -> str:
    components = _components(name)
    if components is None or _RESERVED & set(components):
        return _escaped(name)
    return "/".join(components)


def _subscriber_component(name: bytes) -> str:
    components = _components(name)
    return _escaped(name) if components is None or len(components) > 1 else components[0]


def _escaped(name: bytes) -> str:
    return _ESCAPE + "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name)


def _plain(components: tuple[str, ...]) -> bytes:
    """Return the name that is stored at `components`."""
    text = "/".join(components)
    if not text.startswith(_ESCAPE):
        return text.encode()
    first, *rest = text.removeprefix(_ESCAPE).split("%")
    return first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)
