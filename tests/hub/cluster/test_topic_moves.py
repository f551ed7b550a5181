"""Prove that `hedwig-admin topic move` succeeds at the first try, under load, and wherever it is interrupted."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.support.traffic import Traffic
from tests.hub.support.running import RunningHub

_MOVES: Final = {"per-topic": 200, "shared": 60}
"""A topic in a shared log moves at the end of a segment, and these are at least a second apart."""
_TOPICS: Final = [b"moved/%d" % number for number in range(10)]
_TOPIC: Final = b"moved"
_LONG_SESSION: Final = "cluster.session_timeout_s=20"
"""The session of hubs that no test kills, on a machine that is busy with other things."""
_AHEAD_S: Final = 0.5
_CUT_SHORT: Final = frozenset(
    {ExitCode.FAILED, ExitCode.VERSION_CONFLICT, ExitCode.OUTCOME_UNKNOWN, ExitCode.UNAVAILABLE}
)


class _Stage:
    """Hubs in processes of their own, and hedwig-admin for their deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.admin = Admin(deployment.directory, deployment.subject.url)
        cluster = f"zookeeper://{deployment.zookeeper}{deployment.prefix}"
        self.admin.environment |= {"HEDWIG_CLUSTER": cluster, "HEDWIG_ADMIN": ""}

    async def start(self, *hubs: RunningHub) -> None:
        await asyncio.gather(*(asyncio.to_thread(hub.start) for hub in hubs))

    async def run(self, *arguments: str) -> Ran:
        return await asyncio.to_thread(self.admin.run, *arguments)

    async def move(self, topic: bytes, hub: RunningHub) -> Any:
        """Move a topic, which must succeed at the first try; return the output of the command."""
        ran = await self.run("topic", "move", topic.decode(), hub.address, "-o", "json")
        assert (ran.code, ran.err) == (ExitCode.DONE, ""), ran
        assert ran.json["owner"] == hub.address
        return ran.json

    async def owner(self, topic: bytes) -> tuple[str, str]:
        """Return the owner of a topic, and whether it is alive, as the command reports them."""
        ran = await self.run("topic", "owner", topic.decode(), "-o", "json")
        assert ran.code == ExitCode.DONE, ran
        (row,) = ran.json["topics"]
        return row["owner"], row["state"]


@pytest.mark.timeout(900)
@on_zookeeper_first
@pytest.mark.parametrize("ledgers", ["shared", pytest.param("per-topic", marks=pytest.mark.full)], indirect=True)
async def test_topics_go_to_and_fro_under_load_and_every_move_succeeds_at_once(deployment: Deployment) -> None:
    """Publishers and subscribers ask a hub that owns nothing, or one of the two hubs between which the topics move."""
    stage = _Stage(deployment)
    hubs, moves = [deployment.apart(_LONG_SESSION) for _ in range(3)], _MOVES[deployment.ledgers]
    await stage.start(*hubs)
    one, other, third = hubs
    unavailable: list[float] = []
    async with AsyncExitStack() as stack:
        traffics = [
            await stack.enter_async_context(Traffic(third.address, _TOPICS[:5])),
            await stack.enter_async_context(Traffic(one.address, _TOPICS[5:])),
        ]
        streams = {topic: stream for traffic in traffics for topic, stream in traffic.streams.items()}
        for topic in _TOPICS:
            await stage.move(topic, one)
        for number in range(moves):
            topic = _TOPICS[number % len(_TOPICS)]
            to = (other, one)[number // len(_TOPICS) % 2]
            began_at, stream = time.monotonic(), streams[topic]
            moved = await stage.move(topic, to)
            assert moved["result"] == "moved"
            published = len(stream.took)

            def is_published_to() -> bool:
                for traffic in traffics:
                    traffic.check_going_on()
                return len(stream.took) > published  # noqa: B023 (awaited here)

            await until(is_published_to, f"{topic!r} is published to after move {number}, to {to.address}")
            unavailable.append(max(took for began, took in stream.took if began + took >= began_at))
        for traffic in traffics:
            await traffic.settle()
    unavailable.sort()
    figures = {
        "moves": moves,
        "published": sum(traffic.published for traffic in traffics),
        "uncertain publishes": sum(stream.uncertain for stream in streams.values()),
        "unavailable p50 ms": round(unavailable[len(unavailable) // 2] * 1000),
        "unavailable p99 ms": round(unavailable[int(len(unavailable) * 0.99)] * 1000),
        "unavailable max ms": round(unavailable[-1] * 1000),
    }
    print(f"\n{deployment.networked.label}: {figures}")


# ------------------------------------------------------------------------------------------------------- cut short


@dataclass(frozen=True, slots=True)
class _Cut:
    """The point at which a move is cut: the n-th write of a hub to the metadata store, before or after it is done."""

    write: int
    action: Action

    def __str__(self) -> str:
        return f"{'before' if self.action is Action.HOLD_REQUEST else 'after'} write {self.write}"


_CUTS: Final = (_Cut(1, Action.HOLD_REQUEST), *(_Cut(number, Action.HOLD_REPLY) for number in range(1, 4)))
"""The source stores a pointer, closes its ledger, and names the target.

The target finds its name, claims the topic, and writes its ranges.
"""

_USUAL: Final = {("source", 2), ("target", 2)}
"""The numbers of the cuts that a usual run makes: the others are for long runs."""

_DELAYS: Final = ((1, Action.DELAY_REQUEST), *((number, Action.DELAY_REPLY) for number in range(1, 4)))


class _Watched:
    """A hub with a proxy before its metadata store. A test can cut it at a write."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._left: int | None = None
        self._action = Action.PASS
        self._is_mute = False
        self.proxy: Proxy
        self.hub: RunningHub

    async def prepare(self) -> "_Watched":
        self.proxy, subject = await self._deployment.behind_proxy(self._plan)
        # Only the move stores a pointer.
        self.hub = self._deployment.apart(f"metadata={subject.url}", "consume_interval=1000000", "consume_flush_s=3600")
        return self

    def cut(self, at: _Cut) -> None:
        self._left, self._action = at.write, at.action

    @property
    def is_cut(self) -> bool:
        return self._is_mute

    def _plan(self, exchange: Exchange) -> Step:
        if self._left is not None and exchange.name == self._deployment.networked.write:
            self._left -= 1
            if self._left == 0:
                self._left, self._is_mute = None, True
                return Step(self._action)
        # No later request of the hub reaches the store, so none can count.
        return Step(Action.HOLD_REQUEST) if self._is_mute else PASS


async def _goes_on(traffic: Traffic) -> None:
    published = traffic.published
    await until(lambda: traffic.published > published + 5, "the topic is served")


async def _cut_short(stage: _Stage, watched: _Watched, target: RunningHub, at: _Cut) -> Ran | None:
    """Move the topic, and kill the watched hub at the cut; return the command's outcome, None if it reached no cut."""
    watched.cut(at)
    moving = asyncio.create_task(stage.run("topic", "move", _TOPIC.decode(), target.address, "--timeout", "10"))
    await until(lambda: watched.is_cut or moving.done(), "the move comes to the cut, or to its end")
    if not watched.is_cut:
        assert (await moving).code == ExitCode.DONE, moving.result()
        return None
    await asyncio.to_thread(watched.hub.kill)
    return await moving


def _check_said(ran: Ran) -> None:
    """Check that the command either succeeded, or reported in one line what failed."""
    if ran.code != ExitCode.DONE:
        assert ran.code in _CUT_SHORT, ran
        assert len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.parametrize(
    ("who", "at"),
    [
        pytest.param(who, at, id=f"{who}-{at}", marks=() if (who, number) in _USUAL else pytest.mark.full)
        for who in ("source", "target")
        for number, at in enumerate(_CUTS)
    ],
)
async def test_hub_that_is_killed_in_a_move_leaves_a_topic_that_others_serve(
    deployment: Deployment, who: str, at: _Cut
) -> None:
    stage = _Stage(deployment)
    watched = await _Watched(deployment).prepare()
    beside, third = deployment.apart(), deployment.apart()
    source, target = (watched.hub, beside) if who == "source" else (beside, watched.hub)
    await stage.start(source, target, third)
    async with Traffic(third.address, [_TOPIC]) as traffic:
        await stage.move(_TOPIC, source)
        await _goes_on(traffic)
        ran = await _cut_short(stage, watched, target, at)
        await _goes_on(traffic)
        # A source may have no pointer to store. It then has one write less.
        assert ran is not None or at.write == _CUTS[-1].write, "the move came to no cut"
        if ran is not None:
            _check_said(ran)
        await traffic.settle()
    # Whichever hub owns the topic now, it can be moved again.
    await stage.move(_TOPIC, third)
    assert await stage.owner(_TOPIC) == (third.address, "alive")


@pytest.mark.timeout(600)
async def test_command_that_is_killed_leaves_a_topic_that_is_served(deployment: Deployment) -> None:
    """The command is killed during a write. The hubs complete the orders that they received."""
    stage = _Stage(deployment)
    left = 0
    delayed = Action.PASS

    def plan(exchange: Exchange) -> Step:
        nonlocal left
        if not left or exchange.name != deployment.networked.write:
            return PASS
        left -= 1
        return PASS if left else Step(delayed, _AHEAD_S)

    proxy, subject = await deployment.behind_proxy(plan)
    watched, beside, third = deployment.apart(f"metadata={subject.url}"), deployment.apart(), deployment.apart()
    await stage.start(watched, beside, third)
    killed_under_way = 0
    async with Traffic(third.address, [_TOPIC]) as traffic:
        for source, target in ((watched, beside), (beside, watched)):
            for write, delayed in _DELAYS:
                await stage.move(_TOPIC, source)
                await _goes_on(traffic)
                seen, left = proxy.done[delayed], write
                command = stage.admin.start("topic", "move", _TOPIC.decode(), target.address)
                try:
                    await until(
                        lambda: proxy.done[delayed] > seen or command.poll() is not None,  # noqa: B023 (awaited here)
                        "the move is under way, or done",
                    )
                    killed_under_way += command.poll() is None
                finally:
                    command.kill()
                    await asyncio.to_thread(command.communicate)
                left = 0
                await _goes_on(traffic)
                owner, state = await stage.owner(_TOPIC)
                assert (owner in {source.address, target.address}, state) == (True, "alive")
        await traffic.settle()
    assert killed_under_way >= len(_DELAYS)


# ---------------------------------------------------------------------------------------------------------- refusals


async def _refused(stage: _Stage, hub: RunningHub, *arguments: str) -> Ran:
    ran = await stage.run("topic", "move", _TOPIC.decode(), hub.address, *arguments)
    assert ran.code != ExitCode.DONE, ran
    assert (ran.out, len(ran.err.splitlines())) == ("", 1), ran
    return ran


async def test_hub_that_would_not_have_the_topic_is_told_before_anything_changes(deployment: Deployment) -> None:
    stage = _Stage(deployment)
    source, full, dead = deployment.apart(), deployment.apart("topics_max=1"), deployment.apart(_LONG_SESSION)
    await stage.start(source, full, dead)
    for topic, hub in ((b"one", full), (_TOPIC, source)):
        assert (await stage.run("topic", "create", topic.decode())).code == ExitCode.DONE
        await stage.move(topic, hub)
    version = (await stage.move(_TOPIC, source))["version"]
    await asyncio.to_thread(dead.kill)
    refusals = [
        (await _refused(stage, full), ExitCode.FAILED, "full"),
        (await _refused(stage, dead, "--timeout", "5"), ExitCode.UNAVAILABLE, "cannot be reached"),
    ]
    for ran, code, word in refusals:
        assert (ran.code, word in ran.err) == (code, True), ran
    unchanged = await stage.move(_TOPIC, source)
    assert (unchanged["result"], unchanged["version"]) == ("unchanged", version)
