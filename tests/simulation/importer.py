"""An operator who takes the ranges of a topic out of the store, and imports them again later, while hubs go on."""

import asyncio
import sqlite3
from random import Random
from typing import Final

from hedwig.errors import BadVersionError
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.metadata import NEW, StoreOptions
from hedwig.metadata.logs.sweep_turn import sweep_held
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import Versioned
from tests.simulation.history import History
from tests.simulation.liveness_model import Register
from tests.simulation.metadata_model import ModelWay, open_model
from tests.simulation.simulated_hub import PORT, VirtualClock

__all__ = ["Importer"]

_HOST: Final = "importer"
_TRIES: Final = 50
_PAUSE_S: Final = 0.02


class Importer:
    """Claims a topic that no hub owns, so that none serves it without its ranges. The importer itself meets no faults.

    The model has no other owner that is alive and not a hub: a client that is sent here finds nobody.
    """

    def __init__(
        self, tables: sqlite3.Connection, register: Register, random: Random, delay_s: float, logs: SharedLogOptions
    ) -> None:
        way = ModelWay(tables, random, delay_s)
        self._metadata = open_model(way, StoreOptions(clock=VirtualClock(), random=random))
        self._register = register
        self._random = random
        self._interval_s = logs.sweep_interval_s

    async def run(self, topic: Topic, history: History) -> None:
        """Take the ranges of a topic out, and bring them back, as soon as no hub owns it."""
        me = self._register.hubs.get(_HOST) or self._register.add(_HOST, PORT)
        self._register.leaving.add(_HOST)  # No hub chooses it as an owner.
        for _ in range(_TRIES):
            try:
                owned = await self._metadata.ownership.write(topic, me, NEW)
            except BadVersionError:
                await asyncio.sleep(_PAUSE_S)
            else:
                await self._import(topic, history)
                await self._metadata.ownership.delete(topic, owned)
                return

    async def _import(self, topic: Topic, history: History) -> None:
        stored = await self._metadata.persistence.read(topic)
        if stored is None:
            return
        async with sweep_held(self._metadata.named_records, VirtualClock(), self._interval_s):
            history.act(f"the ranges of {topic.decode()} are taken out")
            stored = await self._taken_out(topic, stored)
            await asyncio.sleep(self._random.choice((0.1, 1.0, 4.0)) * self._random.random())
            # A hub that crashed may have asked for the topic to be made, and its request may arrive only now.
            made = await self._metadata.persistence.read(topic)
            await self._metadata.persistence.write(topic, stored.value, made.version if made else NEW)
        history.act(f"the ranges of {topic.decode()} are imported again")

    async def _taken_out(self, topic: Topic, stored: Versioned[LedgerRanges]) -> Versioned[LedgerRanges]:
        """Delete the ranges of a topic, and return them as they were then."""
        while True:
            try:
                await self._metadata.persistence.delete(topic, stored.version)
                return stored
            except BadVersionError as exc:
                # A hub that was declared dead may have asked for a change before. The next owner shut it out of its
                # log only, so that change may arrive late.
                late = exc.current
            assert late is not None, "who refuses a version says what is there"
            stored = late
