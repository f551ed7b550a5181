"""Feed a running hub with the inputs of a coverage-guided fuzzer. This is a script, not a test, and needs atheris.

    pip install atheris
    python -m tests.hub.support.fuzz_hub_with_atheris -max_total_time=60

It ends with the input that broke something: an uncaught exception, a channel that stays, or an unserved neighbour.
"""

import asyncio
import importlib
import logging
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.options.options import HubOptions
from tests.hub.support.wire_client import WireClient, eventually

__all__: list[str] = []

_INSTRUMENTED = ("hedwig.wire", "hedwig.hub")
_NEIGHBOUR = b"neighbour"


async def _feed(hub: Hub, neighbour: WireClient, stream: bytes) -> None:
    async with await WireClient.connect(hub.port) as client:
        client.send_bytes(stream)
        client.writer.write_eof()
        await client.closed_by_hub()
    published = await neighbour.publish(_NEIGHBOUR, b"m")
    assert await neighbour.delivered(1) == [published]
    await eventually(lambda: len(hub.channels) == 1, "the hub let the channel go")
    neighbour.received.clear()
    neighbour.answers.clear()


async def _begin(directory: Path) -> tuple[Hub, WireClient]:
    options = HubOptions(
        data_directory=directory,
        port=0,
        admin_port=-1,
        ledger_messages_max=20,
        ledgers=LocalLedgerOptions(segment_bytes=1 << 20, reserve_bytes=1 << 16),
    )
    hub = await Hub.start(replace(options, non_durable_topics=("live.*",)))
    neighbour = await WireClient.connect(hub.port)
    await neighbour.subscribed(_NEIGHBOUR, b"s")
    return hub, neighbour


def _main() -> None:
    atheris: Any = importlib.import_module("atheris")
    logging.disable(logging.WARNING)
    for name in [name for name in sys.modules if name.startswith(_INSTRUMENTED)]:
        for value in list(vars(sys.modules[name]).values()):
            if getattr(value, "__module__", "").startswith(_INSTRUMENTED) and callable(value):
                _instrument(atheris, value)
    with tempfile.TemporaryDirectory(prefix="hedwig-fuzz-") as directory, asyncio.Runner() as runner:
        errors: list[dict[str, Any]] = []
        runner.get_loop().set_exception_handler(lambda _, context: errors.append(context))
        hub, neighbour = runner.run(_begin(Path(directory)))

        def one(data: bytes) -> None:
            """Use the fuzzer's input as frames with the lengths that it names, so that it passes the framing."""
            frames, rest = [], data
            while rest:
                length, rest = rest[0], rest[1:]
                frames.append(length.to_bytes(4, "big") + rest[:length])
                rest = rest[length:]
            runner.run(_feed(hub, neighbour, b"".join(frames)))
            if errors:
                raise RuntimeError(errors[0])

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


def _instrument(atheris: Any, value: Any) -> None:
    """Make a function, or the methods of a class, report their branches to the fuzzer."""
    if not isinstance(value, type):
        if hasattr(value, "__code__"):
            atheris.instrument_func(value)
        return
    for member in list(vars(value).values()):
        if hasattr(member, "__code__"):
            atheris.instrument_func(member)


if __name__ == "__main__":
    _main()
