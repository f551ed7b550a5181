"""Facts that a ZooKeeper server reports through its four-letter commands, as far as it allows them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from hedwig.metadata.contract.backend import StoreOptions

__all__ = ["server_facts"]

_COMMANDS: Final = ("mntr", "srvr")
"""`mntr` must be allowed in the server's configuration; `srvr` is unless forbidden."""

_NAMES: Final = {
    "zk_version": "server version",
    "zk_server_state": "mode",
    "zk_znode_count": "znodes",
    "zk_approximate_data_size": "approximate data size (bytes)",
    "Zookeeper version": "server version",
    "Mode": "mode",
    "Node count": "znodes",
}
_ANSWER_TIMEOUT_S: Final = 5.0
_ANSWER_BYTES_MAX: Final = 1 << 20


async def server_facts(endpoints: tuple[tuple[str, int], ...], options: StoreOptions) -> Mapping[str, str]:
    """Return the facts of the first server that answers; nothing if none does."""
    timeout_s = min(_ANSWER_TIMEOUT_S, options.operation_timeout_s)
    for host, port in endpoints:
        for command in _COMMANDS:
            try:
                async with asyncio.timeout(timeout_s):
                    text = await _ask(host, port, command)
            except (OSError, TimeoutError):
                continue
            if facts := _facts(text):
                return facts
    return {}


async def _ask(host: str, port: int, command: str) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(command.encode())
        parts = []
        size = 0
        while size < _ANSWER_BYTES_MAX and (part := await reader.read(65536)):
            parts.append(part)
            size += len(part)
        return b"".join(parts).decode("utf-8", "replace")
    finally:
        writer.close()


def _facts(text: str) -> Mapping[str, str]:
    facts = {}
    for line in text.splitlines():
        name, _, value = line.partition("\t" if line.startswith("zk_") else ":")
        if name in _NAMES:
            facts[_NAMES[name]] = value.strip()
    return facts
