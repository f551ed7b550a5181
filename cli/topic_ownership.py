"""The commands about who owns a topic, but for move: owner, release."""

from collections.abc import Sequence
from typing import Any, Final

import click

from cli.admin_endpoint import RefusedError, named
from cli.cluster_access import ClusterAccess
from cli.errors import CommandError, ExitCode
from cli.fields import name_fields
from cli.names import TOPIC, complete_topic
from cli.program import AdminCommand
from cli.settings import Settings, pass_settings
from cli.topic_move import check_version, expected_version_option, is_to_be_asked
from cli.topic_owner import OwnerFinder, TopicOwner, owner_options
from hedwig.model import Topic
from hedwig.names import show_name
from hedwig.versions import Version

__all__ = ["release", "release_topic", "show_owners"]

_COLUMNS: Final = ("topic", "owner", "state", "why", "admin", "epoch", "version")
_SHOWN: Final = ("topic", "owner", "state", "why")
_NOT_FOUND: Final = 404


@click.command("owner", cls=AdminCommand, example="hedwig-admin topic owner news")
@click.argument("names", nargs=-1, required=True, type=TOPIC, metavar="NAME...", shell_complete=complete_topic)
@owner_options()
@pass_settings
def show_owners(settings: Settings, /, names: Sequence[Topic], cluster: ClusterAccess, admin: str | None) -> None:
    """Show which hub owns each topic, and whether that hub is alive.

    A hub of a cluster is looked for in ZooKeeper; a standalone one is asked itself.
    """
    output = settings.writer()
    owners = OwnerFinder(settings, cluster, admin).find_all(list(dict.fromkeys(names)))
    there = [owner for owner in owners if owner.exists]
    if there:
        output.begin("topics", _COLUMNS, _SHOWN)
        output.page([_owner_row(owner) for owner in there])
        output.end()
    missing = [owner for owner in owners if not owner.exists]
    if missing:
        said = ", ".join(f"'{show_name(owner.topic)}'" for owner in missing[:10])
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise CommandError(
            f"there is no topic {said}{more}; see what there is with: hedwig-admin topic list", ExitCode.NOT_FOUND
        )


@click.command("release", cls=AdminCommand, example="hedwig-admin topic release news")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@expected_version_option
@owner_options()
@pass_settings
def release_topic(
    settings: Settings,
    /,
    name: Topic,
    expected_version: Version | None,
    cluster: ClusterAccess,
    admin: str | None,
) -> None:
    """Have the owner of a topic give it up; the next hub that is asked for it owns it then.

    Consume pointers are stored first, and connections that serve its subscriptions are closed, upon which clients
    subscribe again.
    """
    output = settings.writer()
    owner = OwnerFinder(settings, cluster, admin).find_existing(name)
    check_version(owner, expected_version)
    result = "released" if release(settings, owner) else "not owned"
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


def release(settings: Settings, owner: TopicOwner) -> bool:
    """Have the owner release the topic; return False if nobody owns it, or whoever did is gone.

    Raises: CommandError - the owner refuses, does not answer, or may be alive and cannot be asked.
    """
    if not is_to_be_asked(settings.command, owner):
        return False
    assert owner.record is not None, "who is alive is on record"
    try:
        owner.asked(settings.command).post(named("/release", topic=owner.topic, version=str(owner.record.version)))
    except RefusedError as exc:
        if exc.status != _NOT_FOUND:
            raise
        return False  # It released the topic by itself meanwhile, or has not come to it since it claimed it.
    return True
