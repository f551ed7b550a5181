"""The command `hedwig-admin subscription reset`, also called `seek`: it moves a consume pointer anywhere."""

from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC, VERSION, CheckedName
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options, offline_option
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic, next_delivered
from hedwig.names import name_fields, show_name
from hedwig.operations.deployment.admin_endpoint import AdminClient
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store_to_write
from hedwig.operations.topics.positions import TopicPositions
from hedwig.operations.topics.subscription_access import StoredSubscription, SubscriptionAccess, check_version
from hedwig.versions import Version

__all__ = ["reset_pointer", "seek_pointer"]

_ID_MAX: Final = (1 << 64) - 1


def _position(text: str) -> int | str:
    if text in ("start", "end"):
        return text
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= _ID_MAX:
        return int(text)
    raise ValueError(f"{text!r} is no position: give the id of a message, 0, start or end")


@dataclass(frozen=True, slots=True)
class _Move:
    """A consume pointer before and after its move. `first_id` is the first message that is kept."""

    was: int
    consumed: int
    first_id: int


def _reset(
    settings: Settings,
    /,
    topic: Topic,
    subscriber: SubscriberId,
    to: int | str,
    expected_version: Version | None,
    force: bool,
    offline: bool,
    yes: bool,
    dry_run: bool,
    deployment: Deployment,
) -> None:
    """Move the consume pointer of a subscription, forward or back.

    Message POSITION and all before it do not come again; all later ones do. `start` is before all kept messages, `end`
    after all published ones. The hub that owns the topic moves the pointer; without owner, the command moves it in the
    store. A move forward asks first, since it skips messages.
    """
    output = settings.writer()
    access = SubscriptionAccess(deployment, topic, subscriber)
    stored = access.read()
    if stored is None:
        raise access.missing()
    check_version(access.name, stored.record, expected_version)
    owner = access.look(offline=offline)
    if owner is None:
        stored = access.read_anew(expected_version)
    move = _look_in_store(access, stored, to) if owner is None else _look(access, *owner, to)
    fields: dict[str, Any] = {
        "was": move.was,
        "consumed": move.consumed,
        "next_id": next_delivered(move.consumed, move.first_id),
    }
    if dry_run:
        output.record(
            name_fields(topic, subscriber) | {"result": "would move"} | fields | {"version": str(stored.record.version)}
        )
        return
    skipped = move.consumed - move.was
    if skipped > 0 and not yes:
        confirm(f"This skips {counted(skipped, 'message')} for the {access.name}")
    if owner is not None:
        answer = access.act(
            owner[0],
            "/seek",
            to=to,
            force="on" if force else None,
            version=None if expected_version is None else str(expected_version),
        )
        fields = {name: answer[name] for name in ("was", "consumed", "next_id")}
        version = answer["version"]
    else:
        version = str(_write(access, stored, move.consumed))
    output.record(name_fields(topic, subscriber) | {"result": "moved"} | fields | {"version": version})


def _look(access: SubscriptionAccess, endpoint: AdminClient, lag: Any, to: int | str) -> _Move:
    """Return the move as computed from the owner's answers."""
    first_id = access.first_id(endpoint)
    (row,) = lag["subscriptions"]
    match to:
        case "start":
            consumed = first_id - 1
        case "end":
            consumed = lag["last_id"]
        case _:
            consumed = int(to)
            _check_published(access, consumed, lag["last_id"])
    return _Move(row["consumed"], consumed, first_id)


def _look_in_store(access: SubscriptionAccess, stored: StoredSubscription, to: int | str) -> _Move:
    positions = TopicPositions(stored.ranges.ranges)
    last_id = positions.last_id
    if last_id is None:
        left_open = positions.open
        assert left_open is not None, "else the end is on record"
        if to == "end" or (isinstance(to, int) and to >= (left_open.start or 1)):
            raise OperationError(
                f"{access.deployment.command} failed on topic '{show_name(access.topic)}': its last hub left ledger "
                f"{left_open.ledger_id} open, so its last message is not known. Publish to the topic or subscribe to "
                "it, so that a hub owns it, then try again"
            )
    first_id = positions.first_id or 1
    match to:
        case "start":
            consumed = first_id - 1
        case "end":
            assert last_id is not None, "it was refused above"
            consumed = last_id
        case _:
            consumed = int(to)
            if last_id is not None:
                _check_published(access, consumed, last_id)
    return _Move(stored.record.value.consumed, consumed, first_id)


def _check_published(access: SubscriptionAccess, to: int, last_id: int) -> None:
    if to > last_id:
        raise OperationError(
            f"{access.deployment.command} failed: topic '{show_name(access.topic)}' has no message {to} yet; the last "
            f"one is {last_id}, which --to end stands for",
            ExitCode.USAGE,
        )


def _write(access: SubscriptionAccess, stored: StoredSubscription, consumed: int) -> Version:
    state = stored.record.value.state
    remote = state.consumed.remote if state is not None and consumed else ()
    data = SubscriptionData(state=SubscriptionState(MessageSeqId(consumed, remote)))

    async def write(store: MetadataStore) -> Version:
        return await store.subscriptions.update(access.topic, access.subscriber, data, stored.record.version)

    return with_store_to_write(access.deployment, write)


def _command(name: str) -> click.Command:
    decorators = (
        click.command(name, cls=AdminCommand, example=f"hedwig-admin subscription {name} news reader --to start"),
        click.argument("topic", type=TOPIC, shell_complete=complete_topic),
        click.argument("subscriber", type=SUBSCRIBER),
        click.option(
            "--to",
            type=CheckedName("position", _position),
            required=True,
            metavar="POSITION",
            help="The last message that counts as consumed, by its id; 0, start or end.",
        ),
        click.option(
            "--expected-version",
            type=VERSION,
            metavar="VERSION",
            help="Only if the subscription is at this version.",
        ),
        click.option("--force", is_flag=True, help="Also take it from a client that has it open."),
        offline_option(),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Say where the pointer would be, and change nothing."),
        deployment_options(admin="the topic's owner"),
    )
    command: Any = pass_settings(_reset)
    for decorator in reversed(decorators):
        command = decorator(command)
    made: click.Command = command
    return made


reset_pointer: Final = _command("reset")
seek_pointer: Final = _command("seek")
