"""Changes a subscription through the hub that owns the topic, or in the store if no hub does.

The owner has attached subscriptions in memory, and stores consume pointers a while later. So it would overwrite a
change made in the store.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from hedwig.errors import BadVersionError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, RecordKey
from hedwig.model import LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.names import show_name
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError, named, topic_path
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState, TopicOwner
from hedwig.operations.errors import missing_subscription, missing_topic
from hedwig.versions import Version, Versioned

__all__ = ["StoredSubscription", "SubscriptionAccess", "check_topic", "check_version"]

_POLL_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription as the store has it, with the ledgers of its topic."""

    record: Versioned[SubscriptionData]
    ranges: LedgerRanges


class SubscriptionAccess:
    """One subscription, and the owner of its topic."""

    def __init__(self, deployment: Deployment, topic: Topic, subscriber: SubscriberId) -> None:
        self.deployment = deployment
        self.topic = topic
        self.subscriber = subscriber

    @property
    def name(self) -> str:
        return str(RecordKey(self.topic, self.subscriber))

    def find_owner(self, *, offline: bool) -> AdminClient | None:
        """Return the admin endpoint of the topic's owner; None if no hub owns it, or with `offline`.

        Raises: OperationError - the owner is alive, or may be, and cannot be asked.
        """
        if offline:
            return None
        owner = OwnerFinder(self.deployment).find(self.topic)
        if owner.state is OwnerState.UNKNOWN:
            raise OperationError(_unknown(self.deployment.command, owner), ExitCode.UNAVAILABLE)
        return owner.asked(self.deployment.command) if owner.state is OwnerState.ALIVE else None

    def look(self, *, offline: bool) -> tuple[AdminClient, Any] | None:
        """Return the endpoint of the topic's owner, and its answer about the lag; None if the store is to be changed.

        An owner on record that does not serve the topic is just acquiring or releasing it. It may write consume
        pointers while it does. So it is asked again until it has finished.

        Raises: OperationError - as `find_owner` and `ask`; or that takes too long.
        """
        deadline = time.monotonic() + self.deployment.timeout_s
        while True:
            endpoint = self.find_owner(offline=offline)
            if endpoint is None:
                return None
            lag = self.ask(endpoint, "/lag")
            if lag is not None:
                return endpoint, lag
            if time.monotonic() >= deadline:
                raise OperationError(
                    f"{self.deployment.command} failed on topic '{show_name(self.topic)}': the hub on record as its "
                    "owner says that it does not own it. After hedwig-admin topic release, the next hub that is "
                    "asked for it owns it. Or give --offline, which changes the store alone",
                    ExitCode.UNAVAILABLE,
                )
            time.sleep(_POLL_S)

    def act(self, endpoint: AdminClient, path: str, **parameters: Any) -> Any:
        """Send the owner a command. Raises OperationError as `ask`, and if the owner released the topic meanwhile."""
        answer = self.ask(endpoint, path, **parameters)
        if answer is None:
            raise self._released()
        return answer

    def first_id(self, endpoint: AdminClient) -> int:
        """Return the id of the first message that is kept. Raises OperationError as `act`."""
        try:
            first: int = endpoint.get(f"{topic_path(self.topic)}?limit=1")["first_id"]
        except RefusedError as exc:
            if exc.answer.get("reason") == "not owned":
                raise self._released() from exc
            raise
        return first

    def _released(self) -> OperationError:
        return OperationError(
            f"{self.deployment.command} failed on topic '{show_name(self.topic)}': its owner released it meanwhile, "
            "and nothing was changed; try again",
            ExitCode.UNAVAILABLE,
        )

    def ask(self, endpoint: AdminClient, path: str, **parameters: Any) -> Any:
        """Ask the owner; None if it does not own the topic any more.

        Raises: OperationError - there is no such subscription, it is attached, or it is at another version.
        """
        whole = named(path, topic=self.topic, subscriber=self.subscriber, **parameters)
        try:
            return endpoint.get(whole) if path == "/lag" else endpoint.post(whole)
        except RefusedError as exc:
            match exc.answer.get("reason"):
                case "not owned":
                    return None
                case "not subscribed":
                    raise missing_subscription(self.topic, self.subscriber) from exc
                case "attached":
                    said = exc.said.partition(";")[0]
                    raise OperationError(
                        f"{self.deployment.command} failed: {said}; --force takes it from its client; the hub "
                        "informs that client, and sends it no more messages"
                    ) from exc
                case "version":
                    raise OperationError(
                        f"{self.deployment.command} failed: {exc.said}; it holds consume pointer "
                        f"{exc.answer.get('consumed')}: look at it, then give that version",
                        ExitCode.VERSION_CONFLICT,
                    ) from exc
            raise

    def read_anew(self, expected: Version | None) -> StoredSubscription:
        """Read the store again once no hub owns the topic, since the last owner may have written; return the result.

        Raises: OperationError - it is gone; BadVersionError - it is not at the version that was expected.
        """
        stored = self.read()
        if stored is None:
            raise self.missing()
        check_version(self.name, stored.record, expected)
        return stored

    def read(self) -> StoredSubscription | None:
        """Return what the store has of the subscription; None if it is not there."""

        async def read(store: MetadataStore) -> StoredSubscription | None:
            record = await store.subscriptions.read(self.topic, self.subscriber)
            if record is None:
                return None
            kept = await store.persistence.read(self.topic)
            return StoredSubscription(record, LedgerRanges() if kept is None else kept.value)

        return with_store(self.deployment, read)

    def missing(self) -> OperationError:
        """Return the error that there is no such subscription, or not even the topic."""

        async def look(store: MetadataStore) -> OperationError:
            try:
                await check_topic(store, self.topic)
            except OperationError as exc:
                return exc
            return missing_subscription(self.topic, self.subscriber)

        return with_store(self.deployment, look)


async def check_topic(store: MetadataStore, topic: Topic) -> None:
    """Raise OperationError if there is no such topic. A misspelt topic must not look like one without subscribers."""
    if await store.persistence.read(topic) is not None:
        return
    async for _ in store.subscriptions.read_subscriptions(topic):
        return
    raise missing_topic(topic)


def check_version(name: str, record: Versioned[SubscriptionData], expected: Version | None) -> None:
    """Raise BadVersionError if a version was given and the record is at another one."""
    if expected is not None and record.version != expected:
        raise BadVersionError(f"the {name} is at version {record.version}, not {expected}", record)


def _unknown(command: str, owner: TopicOwner) -> str:
    return (
        f"{command} failed on topic '{show_name(owner.topic)}': it is not known whether its owner {owner.hub} is "
        f"alive: {owner.why}. If that hub is down, give --offline, which changes the store alone"
    )
