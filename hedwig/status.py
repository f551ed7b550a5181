"""The status codes of the wire protocol, which also name our errors."""

from enum import IntEnum

__all__ = ["StatusCode"]


class StatusCode(IntEnum):
    """The status of a hub's answer: 4xx is an error of the caller, 5xx one of the service, 52x a metadata outcome.

    Source: Hedwig `StatusCode`, specs/hedwig-protocol.md section 2.6.
    """

    SUCCESS = 0
    MALFORMED_REQUEST = 401
    NO_SUCH_TOPIC = 402
    CLIENT_ALREADY_SUBSCRIBED = 403
    CLIENT_NOT_SUBSCRIBED = 404
    COULD_NOT_CONNECT = 405
    TOPIC_BUSY = 406
    RESUBSCRIBE_EXCEPTION = 407
    NOT_RESPONSIBLE_FOR_TOPIC = 501
    SERVICE_DOWN = 502
    UNCERTAIN_STATE = 503
    INVALID_MESSAGE_FILTER = 504
    BAD_VERSION = 520
    NO_TOPIC_PERSISTENCE_INFO = 521
    TOPIC_PERSISTENCE_INFO_EXISTS = 522
    NO_SUBSCRIPTION_STATE = 523
    SUBSCRIPTION_STATE_EXISTS = 524
    NO_TOPIC_OWNER_INFO = 525
    TOPIC_OWNER_INFO_EXISTS = 526
    UNEXPECTED_CONDITION = 600
    COMPOSITE = 700
