"""Measure what rules cost publishes: a hub that asks 100,000 rules beside one that asks nobody.

    python -m hedwig.benchmarks.studies.access_cost

In each round both hubs start anew, each with a store of its own that has the same rules. A client publishes to 50
topics with 100 in flight, in slices that go to the hubs in turns. So what else the machine does meets both alike. The
figure is the ratio of the rates of a round: the median of all rounds, with the interval between the quarters. Before
that comes a micro-benchmark: one question about a topic, the first time and later.
"""

import argparse
import asyncio
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Final

import uvloop

from hedwig.access import Action, Principal, Rule, RuleBook
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import HedwigError
from hedwig.hub.access.caller import Caller
from hedwig.metadata import format_metadata, open_metadata
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import MessageSeqId

__all__ = ["main"]

_GROUPS: Final = 2_000
_TOPICS: Final = 50
_TOPIC_NAMES: Final = [f"bench/{number}" for number in range(_TOPICS)]
_IN_FLIGHT: Final = 100
_WARM: Final = 10
"""One part in N of the messages warms up."""
_SLICES: Final = 20
_BODY: Final = b"x" * 100
_SERVING: Final = re.compile(rb"serving (\S+:\d+)")


def _rules(count: int) -> list[Rule]:
    """Return rules for many groups, and a few for the user that publishes."""
    theirs = [
        Rule.parse(f"allow group:g{number % _GROUPS} publish,create team{number}/{'x' * (number % 7)}*")
        for number in range(count)
    ]
    return [
        *theirs,
        Rule.parse("allow user:local publish,create bench/*"),
        Rule.parse("deny user:local publish secret/*"),
    ]


async def _fill(url: str, rules: Sequence[Rule]) -> None:
    await format_metadata(url)
    by_who: dict[str, list[Rule]] = {}
    for rule in rules:
        by_who.setdefault(rule.who, []).append(rule)
    async with await open_metadata(url) as store:
        records = RuleRecords(store.named_records)
        for who, found in by_who.items():
            await records.replace(who, tuple(found))


class _Publisher:
    """Publishes to one hub, and counts for how long."""

    def __init__(self, client: HedwigClient) -> None:
        self._client = client
        self._left = 0
        self._is_over = asyncio.Event()
        self.taken_s = 0.0

    async def publish(self, count: int) -> None:
        self._left = count
        self._is_over.clear()
        began = time.monotonic()
        for number in range(count):
            await self._client.begin_publish(_TOPIC_NAMES[number % _TOPICS], _BODY, self._published)
        await self._is_over.wait()
        self.taken_s += time.monotonic() - began

    def _published(self, outcome: MessageSeqId | HedwigError) -> None:
        if isinstance(outcome, HedwigError):
            raise outcome
        self._left -= 1
        if not self._left:
            self._is_over.set()


async def _publish(addresses: Mapping[str, str], count: int) -> Mapping[str, float]:
    """Publish `count` messages to each hub in turns, and return the rate of each mode."""
    async with AsyncExitStack() as stack:
        publishers = {}
        for mode, address in addresses.items():
            options = ClientOptions(hub=HubAddress.parse(address), publishes_in_flight_max=_IN_FLIGHT)
            publishers[mode] = _Publisher(await stack.enter_async_context(HedwigClient(options)))
        for publisher in publishers.values():
            await publisher.publish(count // _WARM)
            publisher.taken_s = 0.0
        size = count // _SLICES
        for number in range(_SLICES):
            turns = list(publishers.values())
            for publisher in reversed(turns) if number % 2 else turns:
                await publisher.publish(size)
        return {mode: size * _SLICES / publisher.taken_s for mode, publisher in publishers.items()}


@contextmanager
def _hub(metadata: Path, mode: str) -> Iterator[str]:
    """Run a hub on a copy of the metadata, and return its address."""
    with tempfile.TemporaryDirectory(prefix="hedwig-access-") as directory:
        own = shutil.copy(metadata, directory)
        settings = (f"metadata=sqlite://{own}", f"access.mode={mode}", "port=0")
        command = [sys.executable, "-m", "hedwig.hub.main", "--data", directory, "--admin-port", "-1"]
        for setting in settings:
            command += ["--set", setting]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            try:
                while (match := _SERVING.search(line := process.stdout.readline())) is None:
                    if not line:
                        raise SystemExit("the hub did not start")
                yield match[1].decode()
            finally:
                process.terminate()
                process.wait(60)


def _questions(rules: Sequence[Rule]) -> tuple[float, float]:
    """Return the microseconds of a question about a topic, the first time and later. Four groups are asked."""
    book = RuleBook.of(rules)
    caller = Caller(Principal("ann", frozenset({"g1", "g2", "g3", "g4"})))
    topics = [b"team%d/xxxxx%d" % (number, number) for number in range(50_000)]
    random.Random(1).shuffle(topics)
    publish, times = int(Action.PUBLISH), []
    for _ in range(2):
        began = time.perf_counter()
        for topic in topics:
            caller.rights(topic, book).may(publish)
        times.append((time.perf_counter() - began) / len(topics) * 1e6)
    return times[0], times[1]


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure what rules of access control cost publishes.")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    rules = _rules(given.rules)
    first, later = _questions(rules)
    print(f"a question about a topic: {first:.2f} µs the first time, {later:.2f} µs later", flush=True)
    with tempfile.TemporaryDirectory(prefix="hedwig-access-") as directory:
        metadata = Path(directory) / "metadata.db"
        asyncio.run(_fill(f"sqlite://{metadata}", rules))
        ratios = []
        for number in range(given.rounds):
            with ExitStack() as stack:
                modes = ("rules", "open") if number % 2 else ("open", "rules")
                addresses = {mode: stack.enter_context(_hub(metadata, mode)) for mode in modes}
                rates = uvloop.run(_publish(addresses, given.messages))
            ratios.append(rates["rules"] / rates["open"])
            shown = ", ".join(f"{mode} {rate:,.0f}/s" for mode, rate in sorted(rates.items()))
            print(f"round {number + 1}: {shown}, ratio {ratios[-1]:.3f}", flush=True)
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"median {middle:.3f}, from {low:.3f} to {high:.3f} between the quarters, of {len(ratios)} rounds")


if __name__ == "__main__":
    main()
