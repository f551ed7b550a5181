"""Verdicts whether an incarnation of a hub is alive. "Dead" never comes from the watched set, and is final."""

from collections import OrderedDict
from functools import partial
from typing import TypeAlias

from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline
from hedwig.concurrency.keyed_work import KeyedWork
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
    """Answers from the live set that a hub is alive, and asks ZooKeeper about hubs that the set does not have.

    A host node has one name for each address, and ZooKeeper gives no two nodes the same czxid. So an incarnation whose
    node is gone never comes back. The latest `options.verdicts_max` of such verdicts are kept.
    """

    def __init__(self, bridge: Bridge, paths: HubPaths, live_set: LiveSet, options: LivenessOptions) -> None:
        self._bridge = bridge
        self._paths = paths
        self._live_set = live_set
        self._options = options
        self._dead: OrderedDict[_Incarnation, None] = OrderedDict()
        self._reading: KeyedWork[_Incarnation, bool] = KeyedWork(_closing)

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this incarnation is alive. Raises: ServiceDownError - it cannot be determined."""
        incarnation = hub.address, hub.epoch
        # Check the set first. Verdicts are final, and a wrong one must not harm a hub that is seen alive.
        if self._live_set.is_watched and self._live_set.has(hub):
            return True
        if incarnation in self._dead:
            return False
        # Later callers may share this request: the incarnation that they ask about began before it was sent.
        return await self._reading.join(incarnation, partial(self._read, incarnation))

    async def aclose(self) -> None:
        """End the requests under way; their callers get ServiceDownError."""
        await self._reading.aclose()

    async def _read(self, incarnation: _Incarnation) -> bool:
        address, epoch = incarnation
        what = f"tell whether hub {address} is alive"
        path = self._paths.host(address)
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        committed, node = await ask(self._bridge, deadline, what, commit_nothing(), get(path))
        answer(what, committed)
        is_alive = not isinstance(answer(what, node, NoNodeError), NoNodeError) and node[1].czxid == epoch
        if not is_alive:
            self._dead[incarnation] = None
            if len(self._dead) > self._options.verdicts_max:
                self._dead.popitem(last=False)
        # The set lags behind, or is about to learn of a change.
        self._live_set.poke()
        return is_alive


def _closing() -> ServiceDownError:
    return ServiceDownError("cannot tell whether a hub is alive: this hub is closing")
