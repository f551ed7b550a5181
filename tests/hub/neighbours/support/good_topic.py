"""A topic whose clients behave, beside other clients that do not; and the memory of the hub's process."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hedwig.status import StatusCode
from hedwig.wire import Answer, Delivery
from tests.hub.support.wire_channel import WireChannel

__all__ = ["GoodTopic", "memory_peak"]

_SUBSCRIBER: Final = b"good"


class GoodTopic:
    """One publisher and one subscriber, each with a connection of its own."""

    def __init__(self, topic: bytes, publisher: WireChannel, subscriber: WireChannel) -> None:
        """Take up two connections; use `open` instead."""
        self.topic = topic
        self.exchanged = 0
        self._publisher = publisher
        self._subscriber = subscriber

    @classmethod
    async def open(cls, port: int, topic: bytes = b"good") -> Self:
        """Subscribe to a new topic of the hub on `port`."""
        made = cls(topic, await WireChannel.open(port), await WireChannel.open(port))
        answer = await made._subscriber.answer(await made._subscriber.subscribe(topic, _SUBSCRIBER))
        assert answer.status is StatusCode.SUCCESS
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._publisher.abort()
        self._subscriber.abort()

    async def exchange(self, messages: int) -> None:
        """Publish, and wait for the answer and for the delivery, one message after the other.

        Raises: TimeoutError - one of them took half a minute, so the topic stands still; OSError - its channel ended.
        """
        for _ in range(messages):
            self.exchanged += 1
            body = b"message %d" % self.exchanged
            answer = await self._publisher.answer(await self._publisher.publish(self.topic, body))
            assert (answer.status, answer.published and answer.published.local) == (StatusCode.SUCCESS, self.exchanged)
            heard = await self._subscriber.receive()
            while isinstance(heard, Answer):  # These answer a CONSUME that arrived while the hub acquired the topic.
                heard = await self._subscriber.receive()
            assert isinstance(heard, Delivery)
            assert heard.message.body == body
            await self._subscriber.consume(self.topic, _SUBSCRIBER, self.exchanged)


def memory_peak(pid: int) -> int:
    """Return the peak memory of a process so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has no memory")
