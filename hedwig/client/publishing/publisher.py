"""A publisher with a name: its messages are stored once, also if the application sends them again after a crash."""

from typing import Final

from hedwig.client.publishing.publishing import Publishing
from hedwig.errors import InvalidArgumentError
from hedwig.model import MessageSeqId
from hedwig.names import Name, topic_of
from hedwig.wire import Message

__all__ = ["NamedPublisher", "publisher_name"]

_NAME_BYTES_MAX: Final = 64
_SEQUENCE_MAX: Final = (1 << 64) - 1


class NamedPublisher:
    """Publishes messages that the application numbers, so that it can send any of them again.

    An application that crashes does not know whether its last messages were published. It publishes them again, with
    the same name and the same sequences, and each is stored once.
    """

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing

    async def publish(
        self, topic: Name, message: Message | bytes, *, sequence: int, age_s: float = 0.0
    ) -> MessageSeqId:
        """Publish a message once; return its position, which is that of the first time if it is sent again.

        Args: sequence - its number in the topic, from 1 on, higher than those of all messages before it; age_s - how
            many seconds ago it may have been sent for the first time, 0 for never. Hubs know what was published in the
            last minutes (`repeat_window_s`). An older message is not published.
        Raises: UncertainAnswerError - it is not known whether it was published; another as HedwigClient.publish;
            MalformedRequestError - the sequence is not higher, or it had another message.
        """
        if not 0 < sequence <= _SEQUENCE_MAX:
            raise InvalidArgumentError(f"a sequence is a number from 1 to {_SEQUENCE_MAX}, not {sequence}")
        if not age_s >= 0:
            raise InvalidArgumentError(f"the age of a message is a number of seconds from 0 on, not {age_s}")
        published = message if isinstance(message, Message) else Message(message)
        return await self._publishing.publish(topic_of(topic), published, sequence, age_s)


def publisher_name(name: Name) -> bytes:
    """Return the name of a publisher as it travels. Raises: InvalidArgumentError - it is empty or too long."""
    encoded = name.encode() if isinstance(name, str) else bytes(name)
    if not 0 < len(encoded) <= _NAME_BYTES_MAX:
        raise InvalidArgumentError(f"the name of a publisher has from 1 to {_NAME_BYTES_MAX} bytes, not {len(encoded)}")
    return encoded
