"""The command `hedwig-admin subscription delete`."""

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC, VERSION
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options, offline_option
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import NoSubscriptionStateError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.admin_endpoint import AdminClient
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store_to_write
from hedwig.operations.topics.positions import TopicPositions
from hedwig.operations.topics.subscription_access import SubscriptionAccess, check_version
from hedwig.versions import Version, Versioned

__all__ = ["delete_subscription"]


@click.command("delete", cls=AdminCommand, example="hedwig-admin subscription delete news reader --yes")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER)
@click.option("--expected-version", type=VERSION, metavar="VERSION", help="Only if it is at this version.")
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such subscription.")
@click.option("--force", is_flag=True, help="Also take it from a client that has it open.")
@offline_option()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@deployment_options(admin="the topic's owner")
@pass_settings
def delete_subscription(
    settings: Settings,
    /,
    topic: Topic,
    subscriber: SubscriberId,
    expected_version: Version | None,
    if_exists: bool,
    force: bool,
    offline: bool,
    yes: bool,
    dry_run: bool,
    deployment: Deployment,
) -> None:
    """Delete a subscription, with all that it has not consumed. One that is open is deleted with --force only.

    The hub that owns the topic deletes it; without owner, the command deletes it in the store.
    """
    output = settings.writer()
    access = SubscriptionAccess(deployment, topic, subscriber)
    stored = access.read()
    if stored is None:
        if not if_exists:
            raise access.missing()
        output.record(name_fields(topic, subscriber) | {"result": "absent"})
        return
    check_version(access.name, stored.record, expected_version)
    owner = access.look(offline=offline)
    if owner is not None:
        (row,) = owner[1]["subscriptions"]
        if row["attached"] and not force:
            raise OperationError(
                f"cannot delete the {access.name}: a client has it open; --force takes it from that client, which is "
                "notified and gets no more messages"
            )
        unconsumed = row["lag_messages"]
    else:
        stored = access.read_anew(expected_version)
        last_id = TopicPositions(stored.ranges.ranges).last_id
        unconsumed = None if last_id is None else max(0, last_id - stored.record.value.consumed)
    fields = {"lag_messages": unconsumed, "version": str(stored.record.version)}
    if dry_run:
        output.record(name_fields(topic, subscriber) | {"result": "would delete"} | fields)
        return
    if not yes:
        loss = "all that it" if unconsumed is None else f"{counted(unconsumed, 'message')} that it"
        confirm(f"This deletes the {access.name} for good, with {loss} has not consumed")
    endpoint = None if owner is None else owner[0]
    version = _delete(access, endpoint, stored.record, force=force, expected=expected_version, if_exists=if_exists)
    result = "absent" if version is None else "deleted"
    output.record(name_fields(topic, subscriber) | {"result": result} | fields | {"version": version})


def _delete(
    access: SubscriptionAccess,
    endpoint: AdminClient | None,
    record: Versioned[SubscriptionData],
    *,
    force: bool,
    expected: Version | None,
    if_exists: bool,
) -> str | None:
    """Delete it, and return its last version; None if it is gone and `if_exists` allows that."""
    if endpoint is not None:
        try:
            answer = access.act(
                endpoint,
                "/unsubscribe",
                force="on" if force else None,
                version=None if expected is None else str(expected),
            )
        except OperationError as exc:
            if exc.code is ExitCode.NOT_FOUND and if_exists:
                return None
            raise
        return str(answer["version"])

    async def delete(store: MetadataStore) -> None:
        await store.subscriptions.delete(access.topic, access.subscriber, record.version)

    try:
        with_store_to_write(access.deployment, delete)
    except NoSubscriptionStateError:
        if not if_exists:
            raise
        return None
    return str(record.version)
