"""Measure what rules cost publishes: a hub that asks 100,000 rules beside one that asks nobody.

    python -m hedwig.benchmarks.studies.access_cost

In each round both hubs start on a store with the same rules, one after the other, in alternating order, and a client
publishes with 100 in flight to 50 topics. The figure is the ratio of the rates of a round: the median of all rounds,
with the interval between the quarters. A micro-benchmark follows: one question about a topic, the first time and later.
"""

import argparse
import asyncio
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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
_IN_FLIGHT: Final = 100
_WARM: Final = 10
"""One part in N of the messages warms up."""
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


async def _publish(address: str, count: int) -> float:
    """Publish, and return the rate."""
    options = ClientOptions(hub=HubAddress.parse(address), publishes_in_flight_max=_IN_FLIGHT)
    topics = [f"bench/{number}" for number in range(_TOPICS)]
    async with HedwigClient(options) as client:
        left, is_over = 0, asyncio.Event()

        def published(outcome: MessageSeqId | HedwigError) -> None:
            nonlocal left
            if isinstance(outcome, HedwigError):
                raise outcome
            left -= 1
            if not left:
                is_over.set()

        async def publish(messages: int) -> None:
            nonlocal left
            left = messages
            is_over.clear()
            for number in range(messages):
                await client.begin_publish(topics[number % _TOPICS], _BODY, published)
            await is_over.wait()

        await publish(count // _WARM)
        began = time.monotonic()
        await publish(count)
        return count / (time.monotonic() - began)


def _rate(url: str, mode: str, count: int) -> float:
    """Start a hub, publish to it, and return the rate."""
    with tempfile.TemporaryDirectory(prefix="hedwig-access-") as directory:
        settings = (f"metadata={url}", f"access.mode={mode}", "port=0")
        command = [sys.executable, "-m", "hedwig.hub.main", "--data", directory, "--admin-port", "-1"]
        for setting in settings:
            command += ["--set", setting]
        command.append("--replace-standalone")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            try:
                while (match := _SERVING.search(line := process.stdout.readline())) is None:
                    if not line:
                        raise SystemExit("the hub did not start")
                return uvloop.run(_publish(match[1].decode(), count))
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
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    rules = _rules(given.rules)
    first, later = _questions(rules)
    print(f"a question about a topic: {first:.2f} µs the first time, {later:.2f} µs later", flush=True)
    with tempfile.TemporaryDirectory(prefix="hedwig-access-") as directory:
        url = f"sqlite://{Path(directory) / 'metadata.db'}"
        asyncio.run(_fill(url, rules))
        ratios = []
        for number in range(given.rounds):
            modes = ("rules", "open") if number % 2 else ("open", "rules")
            rates = {mode: _rate(url, mode, given.messages) for mode in modes}
            ratios.append(rates["rules"] / rates["open"])
            shown = ", ".join(f"{mode} {rate:,.0f}/s" for mode, rate in rates.items())
            print(f"round {number + 1}: {shown}, ratio {ratios[-1]:.3f}", flush=True)
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"median {middle:.3f}, from {low:.3f} to {high:.3f} between the quarters, of {len(ratios)} rounds")


if __name__ == "__main__":
    main()
