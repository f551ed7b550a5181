"""The wire protocol of Hedwig, without a socket: frames, requests, responses, messages.

Generated protobuf code stays inside this package and the record codec of metadata.zookeeper. Other code uses the values
of this package.
"""

from hedwig.wire.frames import CLIENT_FRAME_BYTES_MAX, HUB_FRAME_BYTES_MAX, FrameDecoder, encode_frame
from hedwig.wire.message import STORED_BY_NOBODY, Message, Origin, Received, stored_at, stored_of
from hedwig.wire.requests import (
    PING_TOPIC,
    Action,
    Attempt,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Malformed,
    Ping,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    decode_request,
    encode_request,
)
from hedwig.wire.responses import (
    Answer,
    Delivery,
    DeliveryEncoder,
    Event,
    EventKind,
    Promises,
    Response,
    decode_response,
    encode_published,
    encode_response,
    read_published,
    split_delivery,
)

__all__ = [
    "CLIENT_FRAME_BYTES_MAX",
    "HUB_FRAME_BYTES_MAX",
    "PING_TOPIC",
    "STORED_BY_NOBODY",
    "Action",
    "Answer",
    "Attempt",
    "CloseSubscription",
    "Consume",
    "CreateOrAttach",
    "Delivery",
    "DeliveryEncoder",
    "Event",
    "EventKind",
    "FrameDecoder",
    "Malformed",
    "Message",
    "Origin",
    "Ping",
    "Promises",
    "Publish",
    "Received",
    "Request",
    "Response",
    "Subscribe",
    "Unsubscribe",
    "decode_request",
    "decode_response",
    "encode_frame",
    "encode_published",
    "encode_request",
    "encode_response",
    "read_published",
    "split_delivery",
    "stored_at",
    "stored_of",
]
