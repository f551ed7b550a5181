"""Routes: how a request finds the hub that owns its topic."""

import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from hedwig.client.options import ClientOptions, HubAddress
from hedwig.clock import Deadline
from hedwig.errors import (
    ClientAlreadySubscribedError,
    ClientNotSubscribedError,
    ConfigurationError,
    CouldNotConnectError,
    InvalidMessageFilterError,
    MalformedRequestError,
    NoSuchTopicError,
    NotAuthenticatedError,
    NotPermittedError,
    NotResponsibleForTopicError,
    QuotaExceededError,
    ServiceDownError,
    ServiceError,
    TopicBusyError,
    UncertainAnswerError,
)
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Action, Answer, RefusalKind, Request

__all__ = ["Routes", "error_of"]

_OWNERS_MAX: Final = 100_000
_HUBS_MAX: Final = 100

_ERRORS: Final[dict[StatusCode, type[ServiceError]]] = {
    error.status: error
    for error in (
        MalformedRequestError,
        NoSuchTopicError,
        ClientAlreadySubscribedError,
        ClientNotSubscribedError,
        TopicBusyError,
        NotResponsibleForTopicError,
        ServiceDownError,
        UncertainAnswerError,
        InvalidMessageFilterError,
    )
}


class Routes:
    """The owners that a client knows, and the search for the others.

    Any hub knows them. The client asks the one of its options first, and once that is gone, others that it has met.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._owners: OrderedDict[Topic, HubAddress] = OrderedDict()
        self._hubs = [options.hub]
        """The hub to ask about topics without a known owner, and behind it those to ask once it is gone."""
        self._txn_ids = itertools.count(1)

    def new_txn_id(self) -> int:
        """Return a transaction id that no other request of this client has."""
        return next(self._txn_ids)

    def owner(self, topic: Topic) -> HubAddress:
        """Return the hub to ask about `topic`: its last known owner, else one that knows it."""
        return self._owners.get(topic, self._hubs[0])

    async def carry(
        self, topic: Topic, action: Action, ask: Callable[[HubAddress, Request, float], Awaitable[Answer]]
    ) -> tuple[HubAddress, Answer]:
        """Send a request to the owner of its topic; return that hub, and its answer, which is a success.

        `ask` sends one request to one hub, within a number of seconds, and returns the answer.

        Raises: ServiceError - the class for the status of the answer; NotResponsibleForTopicError - after too many
            redirects; any error of `ask`.
        """
        deadline = Deadline.after(self._options.clock, self._options.answer_timeout_s)
        tried: tuple[bytes, ...] = ()
        for _ in range(self._options.redirects_max + 1):
            address = self.owner(topic)
            request = Request(
                topic=topic, txn_id=self.new_txn_id(), action=action, should_claim=bool(tried), tried=tried
            )
            try:
                answer = await ask(address, request, deadline.remaining_s())
            except NotAuthenticatedError:
                raise  # All hubs say so.
            except CouldNotConnectError:
                if not self.leave(topic, address) or deadline.expired:
                    raise
                continue  # The owner is gone, and another hub knows the new one.
            except UncertainAnswerError:
                self.leave(topic, address)  # The hub may be gone, and the next request must not wait for it again.
                raise
            if answer.status is not StatusCode.NOT_RESPONSIBLE_FOR_TOPIC:
                self.remember(topic, address)
                if answer.status is not StatusCode.SUCCESS:
                    raise error_of(answer)
                return address, answer
            tried = (*tried, address.key)
            self.follow(topic, answer)
        raise NotResponsibleForTopicError(
            f"no hub accepted the request after {self._options.redirects_max} redirects: {b', '.join(tried).decode()}"
        )

    def follow(self, topic: Topic, answer: Answer) -> None:
        """Ask the hub next that an answer of NOT_RESPONSIBLE_FOR_TOPIC names. Raises ServiceDownError if it is none."""
        if not answer.text:
            self._owners.pop(topic, None)  # Ownership was lost while the request waited: ask anew.
            return
        try:
            self.remember(topic, HubAddress.parse(answer.text))
        except ConfigurationError as exc:
            raise ServiceDownError(
                f"a hub redirects to an invalid address: {answer.text!r}", StatusCode.UNEXPECTED_CONDITION
            ) from exc

    def avoid(self, topic: Topic, address: HubAddress) -> None:
        """Ask another hub about `topic` next, if there is one. It knows the owner, which may be `address` again."""
        self._owners.pop(topic, None)
        if self._hubs[0] == address:
            self._hubs.append(self._hubs.pop(0))

    def leave(self, topic: Topic, address: HubAddress) -> bool:
        """Do not ask a hub again that may be gone, unless there is no other; return whether there is one to ask."""
        was_owner = self._owners.pop(topic, None) is not None
        if len(self._hubs) > 1 and address in self._hubs:
            self._hubs.remove(address)
            if address == self._options.hub:
                self._hubs.append(address)  # It may come back, and is where a user expects a hub.
            return True
        return was_owner

    def remember(self, topic: Topic, address: HubAddress) -> None:
        """Ask a hub about `topic` from now on."""
        if self._owners.get(topic) is not address:
            self._owners[topic] = address
            if address not in self._hubs and len(self._hubs) < _HUBS_MAX:
                self._hubs.append(address)
        if len(self._owners) > _OWNERS_MAX // 2:  # Before that, none goes soon.
            self._owners.move_to_end(topic)
            if len(self._owners) > _OWNERS_MAX:
                self._owners.popitem(last=False)


def error_of(answer: Answer) -> ServiceError:
    """Return the error that an answer reports which is no success."""
    error = _ERRORS.get(answer.status, ServiceDownError)
    if answer.refusal is RefusalKind.NOT_PERMITTED:
        error = NotPermittedError
    elif answer.refusal is RefusalKind.NOT_AUTHENTICATED:
        error = NotAuthenticatedError
    text = f"the hub answers {answer.status.name}: {answer.text or 'no reason given'}"
    if answer.refusal is RefusalKind.QUOTA_EXCEEDED:
        retry_ms = answer.retry_after_ms
        return QuotaExceededError(text, None if retry_ms is None else retry_ms / 1000, answer.status)
    return error(text, answer.status)
