"""Measure what a crowd of logins does to a client that is served: 15,000 clients log in with passwords at once.

    python -m hedwig.benchmarks.studies.logins

A client publishes every few milliseconds, first beside nobody, then beside the crowd. The processes of the crowd
connect and log in as fast as the hub takes them. The figures are the latencies of the publishes. The crowd derives its
key once: 15,000 computations of 10 ms would keep the processors of this machine busy, and true clients have their own.

Then somebody guesses: in turns a wrong password, and one of a user that does not exist. The figures are the times that
the hub takes for the last step of each. If they differed, they would tell which users there are.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import scramp.core
import uvloop

from hedwig.access import Rule
from hedwig.access.scram import make_verifier
from hedwig.access.users import User
from hedwig.client import ClientOptions, HedwigClient, HubAddress, PasswordCredentials
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords
from hedwig.wire import PING_TOPIC, Authenticate, FrameDecoder, Request, decode_response, encode_frame, encode_request
from hedwig.wire.responses import Answer

__all__ = ["main"]

_PASSWORD: Final = "correct horse"
_USER: Final = "ann"
_WRONG: Final = "incorrect horse"
_NOBODY: Final = "bob"
_MECHANISM: Final = "SCRAM-SHA-256"
_EVERY_S: Final = 0.005
_ALONE_S: Final = 5.0
_CONNECTING_MAX: Final = 200
"""How many logins of a process are under way at once."""
_ADDRESSES: Final = 200
_FRAME_BYTES_MAX: Final = 1 << 20
_READ_BYTES: Final = 1 << 16


class _RefusedError(Exception):
    """The hub refused a login, `after_s` seconds after its last step."""

    def __init__(self, after_s: float, answer: object) -> None:
        super().__init__(f"a login was refused: {answer}")
        self.after_s = after_s


async def _log_in(port: int, number: int, user: str = _USER, password: str = _PASSWORD) -> asyncio.StreamWriter:
    """Connect and log in; return the connection. One address may not have nearly all connections of a hub."""
    source = f"127.0.1.{1 + number % _ADDRESSES}", 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
    decoder = FrameDecoder(_FRAME_BYTES_MAX)
    client = scramp.core.ScramClient([_MECHANISM], user, password)

    async def step(number: int, data: str) -> str:
        request = Request(topic=PING_TOPIC, txn_id=number, action=Authenticate(_MECHANISM, data.encode()))
        began = time.perf_counter()
        writer.write(encode_frame(encode_request(request), _FRAME_BYTES_MAX))
        bodies: list[bytes] = []
        while not bodies:
            data_read = await reader.read(_READ_BYTES)
            if not data_read:
                raise ConnectionResetError("the hub closed the connection")
            bodies = decoder.receive(data_read)
        answer = decode_response(bodies[0])
        if not isinstance(answer, Answer) or answer.authentication is None:
            writer.close()
            raise _RefusedError(time.perf_counter() - began, answer)
        return answer.authentication.data.decode()

    client.set_server_first(await step(1, client.get_client_first()))
    client.set_server_final(await step(2, client.get_client_final()))
    return writer


async def _crowd(port: int, count: int) -> None:
    turns = asyncio.Semaphore(_CONNECTING_MAX)
    writers: list[asyncio.StreamWriter] = []

    async def one(number: int) -> None:
        async with turns:
            writers.append(await _log_in(port, number))

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
    for writer in writers:
        writer.close()


def _derive_once() -> None:
    derive, derived = scramp.core.hi, {}

    def derive_once(hash_function: Any, password: bytes, salt: bytes, iterations: Any) -> Any:
        key = password, salt, int(iterations)
        if key not in derived:
            derived[key] = derive(hash_function, password, salt, iterations)
        return derived[key]

    scramp.core.hi = derive_once


def _crowd_process(port: int, count: int) -> None:
    _derive_once()
    asyncio.run(_crowd(port, count))


async def _guess(port: int, guesses: int) -> Mapping[str, Sequence[float]]:
    """Return how many microseconds each refusal took, for a user that exists and for one that does not."""
    _derive_once()
    took: dict[str, list[float]] = {_USER: [], _NOBODY: []}
    for number in range(guesses):
        for user in (_USER, _NOBODY) if number % 2 else (_NOBODY, _USER):
            try:
                await _log_in(port, number, user, _WRONG)
            except _RefusedError as exc:
                took[user].append(exc.after_s * 1e6)
            else:
                raise SystemExit("the hub took a wrong password")
    return took


def _hub_process(directory: str, crowd: int, ports: "multiprocessing.SimpleQueue[int]") -> None:
    async def serve() -> None:
        access = AccessOptions(mode="rules", anonymous="", mechanisms=(_MECHANISM,), newcomers_max=crowd)
        options = HubOptions(data_directory=Path(directory), port=0, admin_port=-1, access=access)
        hub: Hub = await start_hub(Configuration(options))
        users, rules = UserRecords(hub.metadata.named_records), RuleRecords(hub.metadata.named_records)
        await users.replace(f"user:{_USER}", User(frozenset(), (make_verifier(_PASSWORD),)))
        await rules.replace("*", (Rule.parse("allow * publish,create *"),))
        assert hub.access is not None
        await hub.access.refresh()
        ports.put(hub.port)
        await hub.failed

    uvloop.run(serve())  # As a hub runs.


async def _publish(port: int, until: "asyncio.Event") -> list[float]:
    """Publish until the event; return the latencies in milliseconds."""
    credentials = PasswordCredentials(_USER, _PASSWORD)
    latencies = []
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", port), credentials=credentials)) as client:
        await client.publish("topic", b"m")
        while not until.is_set():
            began = time.perf_counter()
            await client.publish("topic", b"m")
            latencies.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(_EVERY_S)
    return latencies


async def _measure(port: int, clients: int, processes: int) -> tuple[Sequence[float], Sequence[float], float]:
    """Return the latencies alone and beside the crowd, and how long that took."""
    until = asyncio.Event()
    asyncio.get_running_loop().call_later(_ALONE_S, until.set)
    alone = await _publish(port, until)
    until.clear()
    publishing = asyncio.create_task(_publish(port, until))
    spawn = multiprocessing.get_context("spawn")
    crowd = [spawn.Process(target=_crowd_process, args=(port, clients // processes)) for _ in range(processes)]
    began = time.monotonic()
    for process in crowd:
        process.start()
    for process in crowd:
        await asyncio.to_thread(process.join)
        if process.exitcode:
            raise SystemExit("a process of the crowd failed; its error is above")
    took_s = time.monotonic() - began
    until.set()
    return alone, await publishing, took_s


def _shown(latencies: Sequence[float]) -> str:
    cuts = statistics.quantiles(latencies, n=100)
    worst = max(latencies)
    return f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, longest {worst:.1f} ms, of {len(latencies)} publishes"


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure what a crowd of logins does to a client that is served.")
    parser.add_argument("--clients", type=int, default=15_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--guesses", type=int, default=400, help="of each kind, 400 at most")
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ports: multiprocessing.SimpleQueue[int] = spawn.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="hedwig-logins-") as directory:
        hub = spawn.Process(target=_hub_process, args=(directory, given.clients, ports))
        hub.start()
        try:
            port = ports.get()
            alone, beside, took_s = asyncio.run(_measure(port, given.clients, given.processes))
            guessed = asyncio.run(_guess(port, given.guesses))
        finally:
            hub.terminate()
            hub.join()
    print(f"alone: {_shown(alone)}")
    print(f"beside {given.clients} logins within {took_s:.1f} s: {_shown(beside)}")
    for user, whose in ((_USER, "a wrong password"), (_NOBODY, "a user that does not exist")):
        low, middle, high = statistics.quantiles(guessed[user], n=4)
        print(f"refusal of {whose}: {middle:.0f} µs, from {low:.0f} to {high:.0f} between the quarters")


if __name__ == "__main__":
    main()
