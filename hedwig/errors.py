"""The errors of Hedwig.

    HedwigError
    ├── InvalidArgumentError (a ValueError)     the caller's input; nothing was sent
    │   ├── NameLimitError                      a topic or subscriber id of a forbidden length
    │   └── RecordTooLargeError                 a record whose encoded form exceeds the limit
    ├── ConfigurationError                      a URL or option that cannot work, an extra that is not installed
    ├── ProtocolError                           bytes that are not Hedwig's protocol; the connection is over
    │   ├── RemoteProtocolError                 the other end sent them
    │   └── LocalProtocolError                  we were about to
    └── MetadataError
        ├── BadVersionError                     the record is not at the version given; carries the current record
        │   ├── TopicOwnerInfoExistsError       NEW, but present
        │   ├── TopicPersistenceInfoExistsError
        │   └── SubscriptionStateExistsError
        ├── NoRecordError                       a version was given, but there is no record
        │   ├── NoTopicOwnerInfoError
        │   ├── NoTopicPersistenceInfoError
        │   └── NoSubscriptionStateError
        ├── LayoutError
        │   ├── LayoutMissingError              the store was never formatted; says the command that does it
        │   └── LayoutMismatchError             another backend, or a newer major format, wrote it
        ├── CorruptRecordError                  stored bytes that no codec of ours understands
        └── MetadataUnavailableError            the store could not be asked: surely not applied
            └── UncertainStateError             it was asked and did not answer: the outcome is not known

`definite` says whether the operation surely did not happen. Only UncertainStateError is not definite: whoever catches
it reads the record before deciding anything.
"""

from typing import Any, ClassVar

from hedwig.status import StatusCode
from hedwig.versions import Version, Versioned

__all__ = [
    "BadVersionError",
    "ConfigurationError",
    "CorruptRecordError",
    "HedwigError",
    "InvalidArgumentError",
    "LayoutError",
    "LayoutMismatchError",
    "LayoutMissingError",
    "LocalProtocolError",
    "MetadataError",
    "MetadataUnavailableError",
    "NameLimitError",
    "NoRecordError",
    "NoSubscriptionStateError",
    "NoTopicOwnerInfoError",
    "NoTopicPersistenceInfoError",
    "ProtocolError",
    "RecordTooLargeError",
    "RemoteProtocolError",
    "SubscriptionStateExistsError",
    "TopicOwnerInfoExistsError",
    "TopicPersistenceInfoExistsError",
    "UncertainStateError",
]


class HedwigError(Exception):
    """The root of everything that Hedwig raises on purpose."""

    status: ClassVar[StatusCode] = StatusCode.UNEXPECTED_CONDITION
    definite: ClassVar[bool] = True


class InvalidArgumentError(HedwigError, ValueError):
    """An argument that no store could serve; refused before anything is sent."""

    status = StatusCode.MALFORMED_REQUEST


class NameLimitError(InvalidArgumentError):
    """A topic or subscriber id that is empty or longer than the limit."""


class RecordTooLargeError(InvalidArgumentError):
    """A record whose encoded form exceeds the limit that holds on every backend."""


class ConfigurationError(HedwigError):
    """A URL or an option that cannot work as given; the text says what to change."""


class ProtocolError(HedwigError):
    """Bytes, or an order of them, that the wire protocol does not admit."""

    status = StatusCode.MALFORMED_REQUEST


class RemoteProtocolError(ProtocolError):
    """The other end broke the protocol; its connection is closed, and nothing else is disturbed."""


class LocalProtocolError(ProtocolError):
    """This end was about to break the protocol; nothing was sent."""


class MetadataError(HedwigError):
    """The root of what the metadata managers raise."""


class BadVersionError(MetadataError):
    """The record exists but is not at the version given; nothing was written.

    `current` is the record as it was read when the write was refused.
    """

    status = StatusCode.BAD_VERSION

    def __init__(self, message: str, current: Versioned[Any] | None = None) -> None:
        super().__init__(message, current)
        self.message = message
        self.current = current

    def __str__(self) -> str:
        return self.message

    @property
    def current_version(self) -> Version | None:
        return self.current.version if self.current is not None else None


class TopicOwnerInfoExistsError(BadVersionError):
    """An owner record was to be created, but the topic has one."""

    status = StatusCode.TOPIC_OWNER_INFO_EXISTS


class TopicPersistenceInfoExistsError(BadVersionError):
    """A persistence record was to be created, but the topic has one."""

    status = StatusCode.TOPIC_PERSISTENCE_INFO_EXISTS


class SubscriptionStateExistsError(BadVersionError):
    """A subscription was to be created, but it exists."""

    status = StatusCode.SUBSCRIPTION_STATE_EXISTS


class NoRecordError(MetadataError):
    """A version was given, but the record is absent or released; nothing was written."""


class NoTopicOwnerInfoError(NoRecordError):
    """The topic has no owner record."""

    status = StatusCode.NO_TOPIC_OWNER_INFO


class NoTopicPersistenceInfoError(NoRecordError):
    """The topic has no persistence record."""

    status = StatusCode.NO_TOPIC_PERSISTENCE_INFO


class NoSubscriptionStateError(NoRecordError):
    """The subscription does not exist."""

    status = StatusCode.NO_SUBSCRIPTION_STATE


class LayoutError(MetadataError):
    """The store cannot be used as it is laid out."""


class LayoutMissingError(LayoutError):
    """The store, or a table of it, does not exist; the text names the command that makes it."""


class LayoutMismatchError(LayoutError):
    """Another backend, or a newer major format, wrote this store; the text names both."""


class CorruptRecordError(MetadataError):
    """A stored record cannot be decoded; the text names the record and what is wrong with it."""


class MetadataUnavailableError(MetadataError):
    """The store could not be reached in time; the operation was surely not applied."""

    status = StatusCode.SERVICE_DOWN


class UncertainStateError(MetadataUnavailableError):
    """The operation was sent and its outcome could not be learned; read before deciding."""

    status = StatusCode.UNCERTAIN_STATE
    definite = False
