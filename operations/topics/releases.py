"""Has the owner of a topic give it up, at the owner's admin endpoint."""

from enum import StrEnum
from http import HTTPStatus

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.model import HubInfo, Topic
from hedwig.names import show_name
from hedwig.operations.deployment.admin_endpoint import RefusedError, named
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import OwnerState, TopicOwner
from hedwig.versions import Versioned

__all__ = ["ReleaseResult", "is_to_be_asked", "release", "without_owner"]


class ReleaseResult(StrEnum):
    """The result of a release."""

    RELEASED = "released"
    NOT_OWNED = "not owned"
    """No hub owned the topic."""
    OWNER_GONE = "owner gone"
    """The record names a hub that serves no client. There was no hub to ask, and the record stays."""


def is_to_be_asked(command: str, owner: TopicOwner) -> bool:
    """Say whether there is a living owner. Raises OperationError if it is not known whether the owner is alive."""
    if owner.state is OwnerState.UNKNOWN:
        raise OperationError(
            f"{command} failed on topic '{show_name(owner.topic)}': it is not known whether its owner {owner.hub} is "
            f"alive: {owner.why}",
            ExitCode.UNAVAILABLE,
        )
    return owner.state is OwnerState.ALIVE


def release(deployment: Deployment, owner: TopicOwner) -> ReleaseResult:
    """Have the owner release the topic.

    Raises: OperationError - the owner refuses, does not answer, or may be alive and cannot be asked.
    """
    if not is_to_be_asked(deployment.command, owner):
        return without_owner(owner)
    assert owner.record is not None, "who is alive is on record"
    endpoint, version = owner.asked(deployment.command), str(owner.record.version)
    path = named("/release", topic=owner.topic, version=version)
    try:
        endpoint.post(path)
    except RefusedError as exc:
        if exc.http_status != HTTPStatus.NOT_FOUND:
            raise
        if _record_of(deployment, owner.topic) != owner.record:
            return ReleaseResult.NOT_OWNED  # The owner released the topic by itself meanwhile.
        # The owner on record does not serve the topic. It has to acquire the topic before it can release it.
        claimed = endpoint.post(named("/claim", topic=owner.topic, version=version))
        endpoint.post(named("/release", topic=owner.topic, version=claimed["owner_version"]))
    return ReleaseResult.RELEASED


def without_owner(owner: TopicOwner) -> ReleaseResult:
    """Return the result for a topic without a living owner."""
    return ReleaseResult.OWNER_GONE if owner.state is OwnerState.GONE else ReleaseResult.NOT_OWNED


def _record_of(deployment: Deployment, topic: Topic) -> Versioned[HubInfo] | None:
    return with_store(deployment, lambda store: store.ownership.read(topic))
