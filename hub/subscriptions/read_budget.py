"""The read budget: the limits and counters that all cursors of a hub share."""

from collections.abc import Sequence

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.hub.logs.log import TopicLog
from hedwig.hub.options.options import HubOptions

__all__ = ["ReadBudget"]


class ReadBudget:
    """Bounds the reads of cursors. `tasks` are the reads of cursors."""

    def __init__(self, options: HubOptions, clock: Clock) -> None:
        self.default_window = options.message_window
        self.read_messages_max = options.read_messages_max
        self.delivered = 0
        self.read_messages = 0
        self.lost_messages = 0
        self._options = options
        self._clock = clock
        self.tasks = Tasks()

    async def read(self, log: TopicLog, local: int, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        """Read as TopicLog.read does, at most `read_bytes_max` bytes."""
        bytes_max = min(bytes_max, self._options.read_bytes_max)
        entries = await log.read(local, messages_max=messages_max, bytes_max=bytes_max)
        self.read_messages += len(entries)
        return entries

    def now(self) -> float:
        return self._clock.monotonic()

    def is_lost(self, damaged_since: float) -> bool:
        """Say whether a message has been damaged for `damage_wait_s`, so that subscribers go on without it."""
        wait_s = self._options.damage_wait_s
        return wait_s > 0 and self._clock.monotonic() - damaged_since >= wait_s

    async def pause_after_failure(self) -> None:
        """Wait before a read is tried again."""
        await self._clock.sleep(self._options.read_retry_s)
