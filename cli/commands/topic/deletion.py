"""The command `hedwig-admin topic delete`: deletes a topic and all its records, safely even if it crashes half way.

A hub that owns the topic serves it from memory, whatever the store says. Messages that it acknowledges then would be in
ledgers that no topic refers to. So with --force the hub is first asked to release the topic; without --force the topic
is not deleted. The record of a hub that has ended is no obstacle. A hub that is not proven to have ended counts as
alive.

A topic exists as long as it has a persistence record, so that record goes last. If a deletion stops early, the topic
still exists and can be deleted again. There are never subscriptions of a topic that no listing shows.

Each record is deleted at the version that was read before the first deletion. A hub that claims the topic meanwhile
rewrites the persistence record. So its claim wins, and the rest of the deletion is refused. A subscription whose
consume pointer moves is read again, since it is to be deleted wherever the pointer stands.

The ledgers of a topic may be on the disk of a standalone hub, where only that hub deletes. So a living standalone hub
deletes the persistence record, and the ledgers that it names.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import TOPIC, VERSION
from hedwig.cli.output.fields import version_text
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options, offline_option
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import BadVersionError, NoRecordError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import Delete, MetadataStore, RecordKey
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.names import name_fields, show_name
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError, named
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store, with_store_to_load
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState, TopicOwner
from hedwig.operations.errors import missing_topic
from hedwig.operations.topics.releases import ReleaseResult, release
from hedwig.versions import Version, Versioned

__all__ = ["LastRecord", "StoredTopic", "check_there", "delete_one", "delete_topic", "read_topic"]

_BATCH: Final = 256
_ROUNDS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The records of a topic in a store. A topic of which only other records remain has no persistence record."""

    topic: Topic
    persistence: Versioned[LedgerRanges] | None
    owner: Versioned[HubInfo] | None
    subscriptions: int

    @property
    def is_anything_there(self) -> bool:
        return self.persistence is not None or self.owner is not None or self.subscriptions > 0

    @property
    def ledgers(self) -> int:
        return 0 if self.persistence is None else len(self.persistence.value.ranges)

    @property
    def own_ledgers(self) -> int:
        """How many ledgers are in no shared log. Hubs sweep what is in one."""
        ranges = () if self.persistence is None else self.persistence.value.ranges
        return sum(not is_virtual(each.ledger_id) for each in ranges)

    def obstacles(self, owner: str) -> str:
        """Name what others would lose by a deletion: subscriptions, and the owner as spelt; empty if nothing."""
        subscriptions = [counted(self.subscriptions, "subscription")] if self.subscriptions else []
        return " and ".join(([owner] if owner else []) + subscriptions)


@click.command("delete", cls=AdminCommand, example="hedwig-admin topic delete news --yes --if-exists")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@click.option("--expected-version", type=VERSION, metavar="VERSION", help="Only if the topic is at this version.")
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such topic.")
@click.option("--force", is_flag=True, help="Delete owner record and subscriptions too.")
@offline_option()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@deployment_options(admin="the topic's owner")
@pass_settings
def delete_one(
    settings: Settings,
    /,
    name: Topic,
    expected_version: Version | None,
    if_exists: bool,
    force: bool,
    offline: bool,
    yes: bool,
    dry_run: bool,
    deployment: Deployment,
) -> None:
    """Delete a topic; with --force also one that has an owner or subscriptions.

    An owner that is alive releases the topic first; the record of one that has ended is deleted without --force too.
    Subscriptions go next and the topic itself last, so that a deletion that was ended can be given again. A standalone
    hub that is alive also deletes the ledgers of the topic. Else they stay, and no topic refers to them: the command
    says how many, and which command deletes them.
    """
    output = settings.writer()
    records = with_store(settings.deployment, lambda store: read_topic(store, name))
    if if_exists and not records.is_anything_there:
        output.record(name_fields(name) | {"result": "absent"})
        return
    check_there(records)
    _check_version(records, expected_version)
    owner = None if records.owner is None else _look(settings, name, deployment, offline=offline)
    _check_unused(records, owner, force)
    if force and not offline:
        _check_known(owner)
    if not dry_run and not yes:
        confirm(f"This deletes {_spelled(records, owner)} for good")
    losses = {
        "owner": None if owner is None else owner.hub,
        "owner_state": str(OwnerState.NONE if owner is None else owner.state),
        "subscriptions": records.subscriptions,
        "ledgers": records.ledgers,
    }
    endpoint = None
    if records.ledgers and not offline:
        endpoint = OwnerFinder(deployment).standalone_endpoint()
    if not dry_run:
        if not force:
            # While the user thought about the question, others may have begun to use the topic.
            _check_unused(with_store(settings.deployment, lambda store: read_topic(store, name)), owner, force)
        elif records.owner is not None and not offline and _is_released(settings, name, deployment):
            records = _released(settings, name)
        last = LastRecord(records, endpoint)
        losses["subscriptions"] = with_store_to_load(
            settings.deployment, lambda store, watch: delete_topic(store, records, watch, last)
        )
        losses["ledgers"] = records.ledgers
        endpoint = last.endpoint
    losses["ledgers_left"] = 0 if endpoint is not None else records.own_ledgers
    version = None if records.persistence is None else records.persistence.version
    result = "would delete" if dry_run else "deleted"
    output.record(name_fields(name) | {"result": result} | losses | {"version": version_text(version)})
    if losses["ledgers_left"]:
        does = "would stay" if dry_run else "stays" if records.own_ledgers == 1 else "stay"
        click.echo(
            f"{counted(records.own_ledgers, 'ledger')} {does} where the hub keeps its messages, and no topic refers to "
            "them: hedwig-admin ledger delete-orphans deletes such ledgers",
            err=True,
        )


def _look(settings: Settings, topic: Topic, deployment: Deployment, *, offline: bool) -> TopicOwner | None:
    """Return the owner, None if there is none any more. With `offline`, do not ask whether it is alive."""
    if not offline:
        owner = OwnerFinder(deployment).find(topic)
        return None if owner.state is OwnerState.NONE else owner
    record = with_store(settings.deployment, lambda store: store.ownership.read(topic))
    if record is None:
        return None
    return TopicOwner(topic=topic, exists=True, record=record, state=OwnerState.UNKNOWN, why="nobody was asked")


def _check_known(owner: TopicOwner | None) -> None:
    """Raise OperationError if it is not known whether the owner is alive."""
    if owner is not None and owner.state is OwnerState.UNKNOWN:
        raise OperationError(
            f"cannot delete topic '{show_name(owner.topic)}': it is not known whether its owner {owner.hub} is alive: "
            f"{owner.why}; if that hub is down, --offline deletes the records alone",
            ExitCode.UNAVAILABLE,
        )


def _is_released(settings: Settings, topic: Topic, deployment: Deployment) -> bool:
    """Have the owner release the topic; return False if it does not serve the topic.

    Raises: OperationError - it refuses, or cannot be asked and may be alive.
    """
    owner = OwnerFinder(deployment).find(topic)
    _check_known(owner)
    return owner.state is OwnerState.ALIVE and release(settings.deployment, owner) is ReleaseResult.RELEASED


def _released(settings: Settings, topic: Topic) -> StoredTopic:
    """Return the records of a topic that was released. Raises OperationError if a hub has claimed it since."""
    records = with_store(settings.deployment, lambda store: read_topic(store, topic))
    if records.owner is not None:
        raise OperationError(
            f"cannot delete topic '{show_name(topic)}': its owner released it, and {records.owner.value.name} has "
            "claimed it since for a client. Nothing was deleted. Stop the topic's clients, then try again",
            ExitCode.VERSION_CONFLICT,
        )
    return records


async def read_topic(store: MetadataStore, topic: Topic) -> StoredTopic:
    """Read the records of `topic`, and count its subscriptions."""
    # Read the persistence record first, so that a record made later makes its version stale.
    persistence = await store.persistence.read(topic)
    owner = await store.ownership.read(topic)
    subscriptions = await store.subscriptions.count_subscriptions(topic)
    return StoredTopic(topic=topic, persistence=persistence, owner=owner, subscriptions=subscriptions)


class LastRecord:
    """The persistence record among the `records` of a topic. It goes last, deleted by the hub at `endpoint`, if any.

    If that hub is of a release that cannot delete it, `endpoint` is None afterwards.
    """

    def __init__(self, records: StoredTopic, endpoint: AdminClient | None) -> None:
        self._records = records
        self.endpoint = endpoint

    async def delete(self, store: MetadataStore) -> None:
        """Delete it. Raises: EndpointError - the hub refuses, or does not answer; what the store raises."""
        topic, persistence = self._records.topic, self._records.persistence
        if persistence is None:
            return
        if self.endpoint is not None:
            path = named("/delete-topic", topic=topic, version=str(persistence.version))
            try:
                await asyncio.to_thread(self.endpoint.post, path)
            except RefusedError as exc:
                if exc.http_status != HTTPStatus.NOT_FOUND or "reason" in exc.answer:
                    raise
                self.endpoint = None  # The hub is of an earlier release.
            else:
                return
        await store.persistence.delete(topic, persistence.version)


async def delete_topic(
    store: MetadataStore, records: StoredTopic, watch: FreezeWatch, last: LastRecord | None = None
) -> int:
    """Delete a topic by its `records`; return the number of deleted subscriptions. `last` deletes its last record.

    Raises: BadVersionError, NoTopicOwnerInfoError, NoTopicPersistenceInfoError - another client or hub wrote or deleted
        a record meanwhile: deleted records stay deleted, and the topic stays; OperationError - subscriptions are made
        as fast as they are deleted, or a hub refuses; StoreFrozenError - a migration froze the store.
    """
    deleted = await _delete_subscriptions(store, records.topic, watch)
    await watch.carry_out(lambda: _delete_records(store, records, last or LastRecord(records, None)))
    return deleted


async def _delete_records(store: MetadataStore, records: StoredTopic, last: LastRecord) -> None:
    if records.owner is not None:
        await store.ownership.delete(records.topic, records.owner.version)
    await last.delete(store)


async def _delete_subscriptions(store: MetadataStore, topic: Topic, watch: FreezeWatch) -> int:
    deleted = 0
    for _ in range(_ROUNDS_MAX):
        seen = 0
        async for batch in _batches(store.subscriptions.read_subscriptions(topic)):
            seen += len(batch)
            deletes = [Delete(RecordKey(topic, subscriber), version) for subscriber, version in batch]
            for outcome in await watch.carry_out(partial(store.subscriptions.apply, deletes)):
                deleted += _is_deleted(outcome.error)
        if not seen:
            return deleted
    raise OperationError(
        f"cannot delete topic '{show_name(topic)}': clients change its subscriptions as fast as they are deleted; "
        "stop its subscribers, and try again",
        ExitCode.VERSION_CONFLICT,
    )


def _is_deleted(error: Exception | None) -> bool:
    """Say whether a subscription was deleted. The next round reads one that has changed. Raises any other error."""
    if error is None:
        return True
    if isinstance(error, NoRecordError | BadVersionError):
        return False
    raise error


async def _batches(
    subscriptions: AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]],
) -> AsyncIterator[list[tuple[SubscriberId, Version]]]:
    batch: list[tuple[SubscriberId, Version]] = []
    async for subscriber, record in subscriptions:
        batch.append((subscriber, record.version))
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def check_there(records: StoredTopic) -> None:
    """Raise OperationError if there is no such topic."""
    if not records.is_anything_there:
        raise missing_topic(records.topic)


def _check_version(records: StoredTopic, expected: Version | None) -> None:
    current = records.persistence
    if expected is None or (current is not None and current.version == expected):
        return
    if current is None:
        raise OperationError(f"topic '{show_name(records.topic)}' has no version any more", ExitCode.NOT_FOUND)
    raise BadVersionError(
        f"topic '{show_name(records.topic)}' is at version {current.version}, not {expected}", current
    )


def _check_unused(records: StoredTopic, owner: TopicOwner | None, force: bool) -> None:
    """Raise OperationError if the topic may be in use. `owner` is what is known of its owner."""
    if force:
        return
    spelt = ""
    if records.owner is not None and not _is_dead(records.owner, owner):
        spelt = f"the owner {records.owner.value.name}"
        if owner is not None and owner.state is not OwnerState.ALIVE:
            spelt += f" (not known for sure to be down: {owner.why})"
    obstacles = records.obstacles(spelt)
    if obstacles:
        raise OperationError(
            f"cannot delete topic '{show_name(records.topic)}': it has {obstacles}; --force deletes these too"
        )


def _is_dead(record: Versioned[HubInfo], owner: TopicOwner | None) -> bool:
    """Say whether the record names the hub that `owner` describes, and that hub has ended."""
    looked_for = None if owner is None else owner.record
    return owner is not None and owner.is_gone_for_good and looked_for is not None and looked_for.value == record.value


def _spelled(records: StoredTopic, owner: TopicOwner | None) -> str:
    obstacles = records.obstacles("" if owner is None else f"the owner {owner.hub}")
    belongings = [obstacles] if obstacles else []
    if records.ledgers:
        belongings.append(f"the only record of {counted(records.ledgers, 'ledger')}")
    return f"topic '{show_name(records.topic)}'" + (f" with {' and '.join(belongings)}" if belongings else "")
