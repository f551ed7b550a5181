"""Turmoil: faults and operator actions on the cluster while its clients work, drawn from the seed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hedwig.hub.topics.topic import OwnedTopic
from tests.simulation.simulated_hub import SimulatedHub

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

__all__ = ["Turmoil"]


class Turmoil:
    """Does one action after another to a cluster, and heals everything at the end."""

    def __init__(self, simulation: "Simulation") -> None:
        self._world = simulation
        self._random = simulation.random
        self._tasks: list[asyncio.Task[Any]] = []
        faults = simulation.faults
        kinds: list[tuple[bool, list[Callable[[], None]]]] = [
            (faults.hubs, [self._crash, self._crash, self._lose_session, self._stop]),
            (faults.zombies, [self._declare_dead, self._declare_dead, self._take_over_twice]),
            (faults.network, [self._cut_client, self._cut_client, self._break_hub, self._cut_from_metadata]),
            (faults.metadata, [self._worsen_metadata, self._worsen_metadata, self._worsen_ledger_records]),
            (
                faults.bookies,
                [self._fail_bookie, self._cut_bookie, self._strand, self._strand, self._slow, self._fail_all],
            ),
            (faults.moves, [self._release, self._release, self._hand_over, self._drain]),
            (faults.cancels, [self._seek, self._seek]),
            (faults.moves and simulation.importer is not None, [self._import]),
        ]
        self._actions = [action for is_chosen, actions in kinds if is_chosen for action in actions]

    async def run(self, seconds: float) -> None:
        """Act on the cluster for `seconds`, and return once everything is healed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await asyncio.sleep(self._random.choice((0.0, 0.3, 2.0)))
        while loop.time() < until:
            if self._actions:
                self._random.choice(self._actions)()
            await asyncio.sleep(self._random.choice((0.02, 0.2, 0.6, 2.0)) * self._random.random())
        await self._heal()

    async def _heal(self) -> None:
        world = self._world
        world.network.heal()
        world.bookies.heal()
        world.ledgers.is_down = False
        world.ledgers.lost = 0.0
        for bookie in world.bookies.bookies.values():
            bookie.is_registered = True
        for hub in world.serving():
            hub.way.heal()
            hub.reach_all()
        for task in self._tasks:
            await task
        for hub in world.serving():
            if hub.is_zombie:
                await hub.inside(hub.notice())
            self._undrain(hub)

    # --------------------------------------------------------------------------------------------------- hubs

    def _crash(self) -> None:
        hub = self._hub(spare=1)
        if hub is not None:
            self._begin(f"{hub.host} crashes", self._crash_and_come_back(hub))

    async def _crash_and_come_back(self, hub: SimulatedHub, *, is_noticed: bool = False) -> None:
        await hub.inside(hub.crash())
        if not is_noticed:
            await self._pause(0.0, 0.5, 2.0)
        hub.forget()
        await self._pause(0.0, 0.5, 2.0)
        self._note(f"{hub.host} starts again")
        await self._world.start_hub(hub.host)

    def _stop(self) -> None:
        hub = self._hub(spare=1)
        if hub is not None:
            self._begin(f"{hub.host} is stopped", self._stop_and_come_back(hub))

    async def _stop_and_come_back(self, hub: SimulatedHub) -> None:
        await hub.inside(hub.close())
        await self._pause(0.0, 1.0)
        self._note(f"{hub.host} starts again")
        await self._world.start_hub(hub.host)

    def _lose_session(self) -> None:
        hub = self._hub(spare=0)
        if hub is not None:
            hub.declare_dead()
            self._begin(f"{hub.host} loses its session", self._notice_later(hub, 0.0))

    def _declare_dead(self) -> None:
        hub = self._hub(spare=1)
        if hub is not None:
            hub.declare_dead()
            self._begin(f"{hub.host} is declared dead, and goes on", self._notice_later(hub, 0.3, 2.0, 6.0))

    def _take_over_twice(self) -> None:
        owner = self._world.owner(self._random.choice(self._world.topics))
        if owner is not None:
            hub, topic = owner
            self._begin(
                f"{hub.host} gives {topic.name.decode()} up to two owners after each other",
                self._depose_and_crash_the_next(hub, topic),
            )

    async def _depose_and_crash_the_next(self, former: SimulatedHub, topic: OwnedTopic) -> None:
        """Depose the next owner of a topic amid its first publish, and crash the one after that amid its takeover.

        The deposed hub goes on, and its range arrives late.
        """
        world, name = self._world, topic.name
        for hub in world.serving():
            hub.way.late_ranges = 0.5
        await former.inside(former.topics.release(topic))
        await self._until(lambda: world.owner(name) is not None, 4.0, 0.001)
        owner = world.owner(name)
        if owner is not None and len(world.serving()) > 1:
            deposed = owner[0]
            deposed.declare_dead()
            self._note(f"{deposed.host} is declared dead amid its first publish")

            def next_owner() -> SimulatedHub | None:
                recorded = world.recorded_owner(name)
                others = [hub for hub in world.serving() if hub is not deposed]
                return next((hub for hub in others if recorded is not None and recorded.host == hub.host), None)

            await self._until(lambda: next_owner() is not None, 4.0, 0.001)
            following = next_owner()
            if following is not None and not following.is_zombie:
                self._note(f"{following.host} crashes amid a takeover")
                await self._crash_and_come_back(following, is_noticed=True)
            await self._notice_later(deposed, 0.3, 2.0, 6.0)
        for hub in world.serving():
            hub.way.late_ranges = 0.0

    async def _notice_later(self, hub: SimulatedHub, *pauses_s: float) -> None:
        await self._pause(*pauses_s)
        if hub.is_zombie and hub in self._world.serving():
            self._note(f"{hub.host} finds out that it was declared dead")
            await hub.inside(hub.notice())

    # ------------------------------------------------------------------------------------------------- topics

    def _release(self) -> None:
        owner = self._world.owner(self._random.choice(self._world.topics))
        if owner is not None:
            hub, topic = owner
            leave = hub.topics.leave if self._random.random() < 0.5 else hub.topics.release
            self._begin(f"{hub.host} releases {topic.name.decode()}", leave(topic), hub)

    def _hand_over(self) -> None:
        owner = self._world.owner(self._random.choice(self._world.topics))
        target = self._hub(spare=0)
        if owner is not None and target is not None and target is not owner[0]:
            hub, topic = owner
            work = hub.topics.hand_over(topic, target.me)
            self._begin(f"{hub.host} hands {topic.name.decode()} over to {target.host}", work, hub)

    def _import(self) -> None:
        topic, owner = self._random.choice(self._world.topics), None
        assert self._world.importer is not None
        if self._random.random() < 0.5:
            owner = self._world.owner(topic)
        if owner is not None:
            hub, owned = owner
            self._begin(f"{hub.host} releases {topic.decode()}", hub.topics.release(owned), hub)
        self._begin("", self._world.importer.run(topic, self._world.history))

    def _drain(self) -> None:
        hub = self._hub(spare=1)
        if hub is not None and not hub.is_draining:
            self._begin(f"{hub.host} is drained", self._drain_and_undrain(hub), hub)

    async def _drain_and_undrain(self, hub: SimulatedHub) -> None:
        hub.is_draining = hub.topics.claims_nothing_new = True
        self._world.register.leaving.add(hub.host)
        for topic in list(hub.topics):
            await hub.topics.leave(topic)
        await self._pause(0.2, 2.0)
        self._undrain(hub)

    def _undrain(self, hub: SimulatedHub) -> None:
        hub.is_draining = hub.topics.claims_nothing_new = False
        self._world.register.leaving.discard(hub.host)

    def _seek(self) -> None:
        reader = self._random.choice(self._world.readers)
        for _ in range(self._random.choice((1, 1, 2))):
            self._tasks.append(asyncio.create_task(self._world.seek_back(reader, is_apart=False)))

    # ------------------------------------------------------------------------------------------------ servers

    def _cut_client(self) -> None:
        machine, hub = self._random.choice(self._world.machines), self._hub(spare=0)
        if hub is not None:
            self._begin(f"{machine} does not reach {hub.host}", self._cut_and_mend(machine, hub.host))

    async def _cut_and_mend(self, machine: str, host: str) -> None:
        self._world.network.cut.add((machine, host))
        await self._pause(0.1, 1.0, 4.0)
        self._world.network.mend(machine, host)

    def _break_hub(self) -> None:
        hub = self._hub(spare=0)
        if hub is not None:
            self._note(f"all connections of {hub.host} break")
            self._world.network.break_connections(hub.host)

    def _cut_from_metadata(self) -> None:
        hub = self._hub(spare=0)
        if hub is not None:
            self._begin(f"{hub.host} does not reach the metadata", self._cut_metadata_and_mend(hub))

    async def _cut_metadata_and_mend(self, hub: SimulatedHub) -> None:
        hub.way.is_cut = hub.liveness.is_cut = True
        if self._random.random() < 0.5:
            hub.records.is_cut = True
        await self._pause(0.1, 1.0, 5.0)
        if not hub.is_down:
            hub.way.is_cut = hub.liveness.is_cut = hub.records.is_cut = False

    def _worsen_metadata(self) -> None:
        random = self._random
        lost, refused, slow = random.choice(((0.3, 0.0, 0.0), (0.1, 0.2, 0.1), (0.0, 0.0, 0.5), (0.0, 0.5, 0.0)))
        hubs = self._world.serving() if random.random() < 0.5 else [hub for hub in [self._hub(spare=0)] if hub]
        self._begin(
            f"of what {', '.join(hub.host for hub in hubs)} ask the metadata, {lost:.0%} is lost, {refused:.0%} "
            f"refused, {slow:.0%} slow",
            self._worsen_and_mend(hubs, lost, refused, slow),
        )

    async def _worsen_and_mend(self, hubs: list[SimulatedHub], lost: float, refused: float, slow: float) -> None:
        for hub in hubs:
            hub.way.lost, hub.way.refused, hub.way.slow = lost, refused, slow
        await self._pause(0.3, 2.0, 5.0)
        for hub in hubs:
            hub.way.lost = hub.way.refused = hub.way.slow = 0.0

    def _worsen_ledger_records(self) -> None:
        is_down = self._random.random() < 0.4
        self._begin(
            f"the records of ledgers are {'away' if is_down else 'written late, or not'}",
            self._worsen_records_and_mend(is_down=is_down),
        )

    async def _worsen_records_and_mend(self, *, is_down: bool) -> None:
        ledgers = self._world.ledgers
        ledgers.is_down, ledgers.lost = is_down, 0.4
        await self._pause(0.1, 1.0, 4.0)
        ledgers.is_down, ledgers.lost = False, 0.0

    def _fail_bookie(self) -> None:
        self._begin("", self._fail_bookies_and_mend([self._bookie()]))

    def _fail_all(self) -> None:
        self._begin("", self._fail_bookies_and_mend(list(self._world.bookies.bookies)))

    async def _fail_bookies_and_mend(self, names: list[str]) -> None:
        bookies = self._world.bookies
        is_registered = self._random.random() < 0.5
        self._note(f"{', '.join(names)} crash")
        for name in names:
            bookies.crash(name)
            bookies[name].is_registered = is_registered
        await self._pause(0.1, 1.0, 6.0)
        for name in names:
            bookies.start(name)
            bookies[name].is_registered = True

    def _cut_bookie(self) -> None:
        hub, name = self._hub(spare=0), self._bookie()
        if hub is not None:
            self._begin(f"{hub.host} does not reach {name}", self._cut_bookie_and_mend(hub, name))

    async def _cut_bookie_and_mend(self, hub: SimulatedHub, name: str) -> None:
        hub.view.cut_off.add(name)
        await self._pause(0.1, 1.0, 6.0)
        if not hub.is_down:
            hub.view.cut_off.discard(name)

    def _strand(self) -> None:
        owner = self._world.owner(self._random.choice(self._world.topics))
        if owner is not None:
            hub, topic = owner
            self._begin(
                f"{hub.host}, which has {topic.name.decode()}, reaches one bookie only",
                self._strand_and_give_back(hub, topic),
            )

    async def _strand_and_give_back(self, hub: SimulatedHub, topic: OwnedTopic) -> None:
        """Make the writer of a topic fail while one bookie may have its last entries, and others recover the topic."""
        world, kept = self._world, self._bookie()
        cut = {name for name in world.bookies.bookies if name != kept}
        hub.view.cut_off |= cut
        await self._until(lambda: hub.topics.get(topic.name) is not topic, 6.0)
        await self._until(lambda: world.owner(topic.name) is not None, 2.0)
        if hub.is_down:
            return
        hub.view.cut_off -= cut
        owner = world.owner(topic.name)
        if owner is not None and owner[0] is not hub and hub in world.serving():
            other, regained = owner
            self._note(f"{other.host} hands {topic.name.decode()} back to {hub.host}")
            await other.inside(other.topics.hand_over(regained, hub.me))

    def _slow(self) -> None:
        self._begin("bookies are slow", self._slow_and_mend())

    async def _slow_and_mend(self) -> None:
        self._world.bookies.slow = self._random.choice((0.02, 0.2))
        await self._pause(0.5, 3.0)
        self._world.bookies.slow = 0.0

    # ------------------------------------------------------------------------------------------------ helpers

    def _hub(self, *, spare: int) -> SimulatedHub | None:
        """Return a hub that serves; None if at most `spare` hubs do."""
        hubs = [hub for hub in self._world.serving() if not hub.is_zombie]
        return self._random.choice(hubs) if len(hubs) > spare else None

    def _bookie(self) -> str:
        return self._random.choice(list(self._world.bookies.bookies))

    async def _pause(self, *seconds: float) -> None:
        await asyncio.sleep(self._random.choice(seconds) * self._random.random())

    async def _until(self, condition: Callable[[], bool], seconds: float, pause_s: float = 0.02) -> None:
        """Wait for a condition, for at most `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        while not condition() and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 (time is virtual)
            await asyncio.sleep(pause_s)

    def _note(self, text: str) -> None:
        self._world.history.act(text)

    def _begin(self, text: str, work: Coroutine[Any, Any, Any], hub: SimulatedHub | None = None) -> None:
        if text:
            self._note(text)
        self._tasks.append(asyncio.create_task(work) if hub is None else hub.inside(work))
