"""A raw client of a hub: one frame out, one frame in, no state, so that a test sees the real frames."""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from hedwig.wire import pubsub_pb2 as pb

__all__ = ["HubClient", "RefusedByHubError", "preferences"]

_LENGTH: Final = struct.Struct(">I")
_TIMEOUT_S: Final = 30.0


class RefusedByHubError(Exception):
    """The hub answered with another status than SUCCESS."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{pb.StatusCode.Name(pb.StatusCode.ValueType(status))}: {text}")
        self.status = status
        self.text = text


class HubClient:
    """One connection. It keeps deliveries that arrive before an answer for `deliveries`.

    Raises in every method: RefusedByHubError; OSError - no answer within `timeout_s`, or the connection ended.
    """

    def __init__(self, port: int, timeout_s: float = _TIMEOUT_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._timeout_s = timeout_s
        self._txn = 0
        self.should_claim = True
        """Whether requests say that another hub redirected the client to this one."""
        self._pushed: list[pb.PubSubResponse] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def publish(self, topic: bytes, body: bytes, remote: Mapping[bytes, int] | None = None) -> int:
        """Publish, with ids of other regions as a hub of a region does; return the local id that the hub gave."""
        request = self._request(pb.PUBLISH, topic)
        request.publishRequest.msg.body = body
        if remote:
            request.publishRequest.msg.msgId.CopyFrom(_seq_id(0, remote))
        return self._call(request).responseBody.publishResponse.publishedMsgId.localComponent

    def subscribe(
        self,
        topic: bytes,
        subscriber: bytes,
        wanted: pb.SubscriptionPreferences | None = None,
        mode: pb.SubscribeRequest.CreateOrAttach = pb.SubscribeRequest.CREATE_OR_ATTACH,
        bound: int | None = None,
    ) -> pb.SubscriptionPreferences:
        """Subscribe on this connection, and return the preferences that are in force from now on.

        `bound` is a message bound in the field of release 4.1, which knows no preferences.
        """
        request = self._request(pb.SUBSCRIBE, topic)
        request.subscribeRequest.subscriberId = subscriber
        request.subscribeRequest.createOrAttach = mode
        request.subscribeRequest.synchronous = True
        request.subscribeRequest.preferences.CopyFrom(wanted or pb.SubscriptionPreferences())
        if bound is not None:
            request.subscribeRequest.messageBound = bound
        return self._call(request).responseBody.subscribeResponse.preferences

    def deliveries(self, count: int) -> list[tuple[int, bytes]]:
        """Return local id and body of the next `count` messages delivered on this connection, each within the time."""
        while len(self._pushed) < count:
            response = self._receive(time.monotonic() + self._timeout_s)
            if response.HasField("message"):
                self._pushed.append(response)
        taken, self._pushed = self._pushed[:count], self._pushed[count:]
        return [(push.message.msgId.localComponent, push.message.body) for push in taken]

    def consume(self, topic: bytes, subscriber: bytes, up_to: int, remote: Mapping[bytes, int] | None = None) -> None:
        """Move the consume pointer; a hub does not answer this."""
        request = self._request(pb.CONSUME, topic)
        request.consumeRequest.subscriberId = subscriber
        request.consumeRequest.msgId.CopyFrom(_seq_id(up_to, remote or {}))
        self._send(request)

    def close_subscription(self, topic: bytes, subscriber: bytes) -> None:
        """End the delivery, and keep the subscription."""
        request = self._request(pb.CLOSESUBSCRIPTION, topic)
        request.closeSubscriptionRequest.subscriberId = subscriber
        self._call(request)

    def unsubscribe(self, topic: bytes, subscriber: bytes) -> None:
        """End the subscription."""
        request = self._request(pb.UNSUBSCRIBE, topic)
        request.unsubscribeRequest.subscriberId = subscriber
        self._call(request)

    def send_publishes(self, topic: bytes, bodies: Sequence[bytes]) -> None:
        """Publish without waiting for answers."""
        for body in bodies:
            request = self._request(pb.PUBLISH, topic)
            request.publishRequest.msg.body = body
            self._send(request)

    def published(self, count: int) -> list[int]:
        """Return the ids in the next `count` answers, fewer if the connection ends. Refusals give no id."""
        deadline = time.monotonic() + self._timeout_s
        ids = []
        for _ in range(count):
            try:
                response = self._receive(deadline)
            except ConnectionError:
                break
            if response.statusCode == pb.SUCCESS:
                ids.append(response.responseBody.publishResponse.publishedMsgId.localComponent)
        return ids

    def _request(self, kind: pb.OperationType, topic: bytes) -> pb.PubSubRequest:
        self._txn += 1
        return pb.PubSubRequest(
            protocolVersion=pb.VERSION_ONE, type=kind, txnId=self._txn, topic=topic, shouldClaim=self.should_claim
        )

    def _call(self, request: pb.PubSubRequest) -> pb.PubSubResponse:
        self._send(request)
        deadline = time.monotonic() + self._timeout_s
        while True:
            response = self._receive(deadline)
            if response.HasField("message"):
                self._pushed.append(response)
            elif response.txnId == request.txnId:
                if response.statusCode != pb.SUCCESS:
                    raise RefusedByHubError(response.statusCode, response.statusMsg)
                return response

    def _send(self, request: pb.PubSubRequest) -> None:
        body = request.SerializeToString()
        self._socket.settimeout(self._timeout_s)
        self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def _receive(self, deadline: float) -> pb.PubSubResponse:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        return pb.PubSubResponse.FromString(self._exactly(length, deadline))

    def _exactly(self, count: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the hub closed the connection")
            received += part
        return bytes(received)


def preferences(
    options: Mapping[str, bytes] | None = None,
    bound: int | None = None,
    message_filter: str | None = None,
    window: int | None = None,
) -> pb.SubscriptionPreferences:
    """Return preferences in their wire form."""
    wanted = pb.SubscriptionPreferences(messageBound=bound, messageFilter=message_filter, messageWindowSize=window)
    for name, value in (options or {}).items():
        wanted.options.entries.add(key=name, value=value)
    return wanted


def _seq_id(local: int, remote: Mapping[bytes, int]) -> pb.MessageSeqId:
    components = [pb.RegionSpecificSeqId(region=region, seqId=seq_id) for region, seq_id in remote.items()]
    return pb.MessageSeqId(localComponent=local, remoteComponents=components)
