"""The commands about the owners of topics, except move: owner, release."""

from collections.abc import Sequence
from typing import Any, Final

import click

from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.commands.topic.move import check_version, expected_version_option
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.model import Topic
from hedwig.names import name_fields, show_name
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.topic_owner import OwnerFinder, TopicOwner
from hedwig.operations.topics.releases import ReleaseResult, is_to_be_asked, release, without_owner
from hedwig.versions import Version

__all__ = ["release_topic", "show_owners"]

_COLUMNS: Final = ("topic", "owner", "state", "why", "admin", "epoch", "version")
_SHOWN: Final = ("topic", "owner", "state", "why")


@click.command("owner", cls=AdminCommand, example="hedwig-admin topic owner news")
@click.argument("names", nargs=-1, required=True, type=TOPIC, metavar="NAME...", shell_complete=complete_topic)
@deployment_options(admin="the topic's owner")
@pass_settings
def show_owners(settings: Settings, /, names: Sequence[Topic], deployment: Deployment) -> None:
    """Show which hub owns each topic, and whether that hub is alive.

    The command looks for a hub of a cluster in ZooKeeper, and asks a standalone hub itself.
    """
    output = settings.writer()
    owners = OwnerFinder(deployment).find_all(list(dict.fromkeys(names)))
    there = [owner for owner in owners if owner.exists]
    if there:
        output.begin("topics", _COLUMNS, _SHOWN)
        output.page([_owner_row(owner) for owner in there])
        output.end()
    missing = [owner for owner in owners if not owner.exists]
    if missing:
        said = ", ".join(f"'{show_name(owner.topic)}'" for owner in missing[:10])
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise OperationError(
            f"there is no topic {said}{more}; see what there is with: hedwig-admin topic list", ExitCode.NOT_FOUND
        )


@click.command("release", cls=AdminCommand, example="hedwig-admin topic release news")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@expected_version_option
@click.option("--dry-run", is_flag=True, help="Look whether it can be done, and change nothing.")
@deployment_options(admin="the topic's owner")
@pass_settings
def release_topic(
    settings: Settings,
    /,
    name: Topic,
    expected_version: Version | None,
    dry_run: bool,
    deployment: Deployment,
) -> None:
    """Have the owner of a topic give it up; the next hub that a client asks for it becomes the owner.

    The owner stores consume pointers first, and closes the connections that serve subscriptions of the topic. Clients
    then subscribe again. The record of an owner that is gone stays: the next hub that is asked for the topic replaces
    it.
    """
    output = settings.writer()
    owner = OwnerFinder(deployment).find_existing(name)
    check_version(owner, expected_version)
    if not dry_run:
        result = str(release(settings.deployment, owner))
    elif is_to_be_asked(settings.command, owner):
        owner.asked(settings.command).health()
        result = "would release"
    else:
        result = str(without_owner(owner))
    if result == ReleaseResult.OWNER_GONE:
        click.echo(
            f"its owner {owner.hub} is gone ({owner.why}). Its record stays until a hub is asked for the topic. "
            "To delete such records: hedwig-admin metadata repair --kind dead-owner",
            err=True,
        )
    record = owner.record
    output.record(
        name_fields(name)
        | {
            "result": result,
            "owner": owner.hub or None,
            "owner_state": str(owner.state),
            "version": None if record is None else str(record.version),
        }
    )


def _owner_row(owner: TopicOwner) -> dict[str, Any]:
    record = owner.record
    return name_fields(owner.topic) | {
        "owner": owner.hub or None,
        "state": str(owner.state),
        "why": owner.why or None,
        "admin": None if owner.endpoint is None else owner.endpoint.address,
        "epoch": None if record is None else record.value.epoch,
        "version": None if record is None else str(record.version),
    }
