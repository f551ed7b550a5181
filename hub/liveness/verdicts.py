"""Whether an incarnation of a hub is alive. That it is dead is never told from a watched set, and is told for good."""

import asyncio
from collections import OrderedDict
from typing import TypeAlias

from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.asking import answer, ask
from hedwig.hub.liveness.live_set import LiveSet
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.paths import HubPaths
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, commit_nothing, get

__all__ = ["Verdicts"]

_Incarnation: TypeAlias = tuple[str, int]


class Verdicts:
    """Answers from the live set who is alive, and asks ZooKeeper whether the others are dead.

    A host node has one name for each address and ZooKeeper gives no two the same czxid, so an incarnation whose node is
    gone never comes back: such verdicts are kept, the latest `options.verdicts_max` of them.
    """

    def __init__(self, bridge: Bridge, places: HubPaths, live_set: LiveSet, options: LivenessOptions) -> None:
        self._bridge = bridge
        self._places = places
        self._live_set = live_set
        self._options = options
        self._dead: OrderedDict[_Incarnation, None] = OrderedDict()
        self._under_way: dict[_Incarnation, asyncio.Task[bool]] = {}

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this very incarnation is alive. Raises ServiceDownError if that cannot be told."""
        incarnation = hub.address, hub.epoch
        # First: a verdict is kept for good, and should one be wrong, whoever is seen to live is not harmed by it.
        if self._live_set.is_watched and self._live_set.has(hub):
            return True
        if incarnation in self._dead:
            return False
        if (reading := self._under_way.get(incarnation)) is None:
            # Whoever asks later may share it: the incarnation that they ask about had begun before it was sent.
            reading = asyncio.create_task(self._read(incarnation))
            self._under_way[incarnation] = reading
            reading.add_done_callback(lambda done: self._ended(incarnation, done))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            if reading.cancelled():
                raise ServiceDownError(f"cannot tell whether hub {hub.address} is alive: this hub is closing") from None
            raise

    async def aclose(self) -> None:
        """End the questions that are under way; they raise ServiceDownError."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, incarnation: _Incarnation, reading: "asyncio.Task[bool]") -> None:
        del self._under_way[incarnation]
        if not reading.cancelled():
            reading.exception()  # Whoever asked may have gone.

    async def _read(self, incarnation: _Incarnation) -> bool:
        address, epoch = incarnation
        what = f"tell whether hub {address} is alive"
        path = self._places.host(address)
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        committed, found = await ask(self._bridge, deadline, what, commit_nothing(), get(path))
        answer(what, committed)
        is_alive = not isinstance(answer(what, found, NoNodeError), NoNodeError) and found[1].czxid == epoch
        if not is_alive:
            self._dead[incarnation] = None
            if len(self._dead) > self._options.verdicts_max:
                self._dead.popitem(last=False)
        # Either the set is behind, or there is something to learn that it has yet to hear of.
        self._live_set.poke()
        return is_alive
