"""The log of a non-durable topic: it delivers messages to the attached subscribers, and does not store them."""

from collections.abc import Sequence

from hedwig.errors import MalformedRequestError, NoSuchTopicError
from hedwig.hub.logs.log import LogListener, Published
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import Tail
from hedwig.wire import Message

__all__ = ["NonDurableLog"]


class NonDurableLog:
    """A TopicLog without ledgers. Positions count from the claim; only messages in memory can be delivered late."""

    __slots__ = ("_listener", "_store", "_tail", "last_id")

    def __init__(self, store: LogContext) -> None:
        self.last_id = 0
        self._store = store
        self._tail = Tail(store.tails)
        self._listener: LogListener | None = None

    @property
    def window(self) -> None:
        """Return None: nothing is stored by which a repeat could be known."""

    @property
    def first_id(self) -> int:
        return self._tail.first or self.last_id + 1

    @property
    def has_closed(self) -> bool:
        return False

    @property
    def is_keeping(self) -> bool:
        return False

    @property
    def is_recent(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return True

    def attach_listener(self, listener: LogListener) -> None:
        self._listener = listener

    def publish_once(
        self,
        message: Message,
        done: Published,
        publisher: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None:
        if age_ms:
            done(0, (), MalformedRequestError("a message to a non-durable topic cannot be published again"))
        else:
            self.publish(message, done)

    def publish(self, message: Message, done: Published) -> None:
        listener = self._listener
        is_heard = listener is not None and listener.has_attached
        if not is_heard and self._store.options.non_durable_refuses_nobody:
            done(0, (), NoSuchTopicError("nobody is subscribed to this non-durable topic"))
            return
        self.last_id += 1
        stored = message.stored_bytes(self.last_id, self._store.region)
        if listener is not None and is_heard:
            self._tail.put(self.last_id, stored)
            listener.on_message(self.last_id, stored)
        done(self.last_id, (), None)

    def recent(self, local: int) -> bytes | None:
        return self._tail.get(local)

    def forget_recent(self) -> None:
        self._tail.clear()

    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        return ()

    async def bytes_from(self, local: int, *, enough: int) -> int:
        return 0

    async def delete_consumed(self, consumed: int) -> int:
        return 0

    async def end_ledger(self) -> None:
        """Do nothing: there are no ledgers."""

    async def merge_small(self) -> bool:
        return False

    async def close(self) -> None:
        self.forget_recent()

    def abandon(self) -> None:
        """Do nothing: each publish is answered at once."""

    async def end(self) -> bool:
        return True
