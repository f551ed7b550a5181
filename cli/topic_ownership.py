"""The commands about who owns a topic: owner, release, move."""

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from cli.admin_endpoint import AdminEndpoint, RefusedError, named
from cli.cluster_access import ClusterAccess, find_hub
from cli.errors import CommandError, ExitCode
from cli.fields import name_fields
from cli.hub_names import complete_hub
from cli.names import TOPIC, VERSION, complete_topic
from cli.program import AdminCommand
from cli.settings import Settings, pass_settings
from cli.topic_owner import OwnerFinder, OwnerState, TopicOwner, hub_name, owner_options
from hedwig.errors import BadVersionError
from hedwig.model import Topic
from hedwig.names import show_name
from hedwig.versions import Version

__all__ = ["move_topic", "release_topic", "show_owners"]

_COLUMNS: Final = ("topic", "owner", "state", "why", "admin", "epoch", "version")
_SHOWN: Final = ("topic", "owner", "state", "why")
_POLL_S: Final = 0.25
_NOT_FOUND: Final = 404

_EXPECTED: Final = click.option(
    "--expected-version", type=VERSION, metavar="VERSION", help="Only if the owner record is at this version."
)


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
        said = ", ".join(repr(show_name(owner.topic)) for owner in missing[:10])
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise CommandError(
            f"there is no topic {said}{more}; see what there is with: hedwig-admin topic list", ExitCode.NOT_FOUND
        )


@click.command("release", cls=AdminCommand, example="hedwig-admin topic release news")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@_EXPECTED
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
    _check_version(owner, expected_version)
    result = "released" if _release(settings, owner, leave=False) else "not owned"
    output.record(name_fields(name) | {"result": result, "owner": owner.hub or None, "owner_state": str(owner.state)})


@click.command("move", cls=AdminCommand, example="hedwig-admin topic move news 127.0.0.1:4080")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@_EXPECTED
@owner_options()
@click.option("--target-admin", metavar="HOST:PORT", help="A way to the admin endpoint of HUB.")
@pass_settings
def move_topic(
    settings: Settings,
    /,
    name: Topic,
    hub: str,
    expected_version: Version | None,
    cluster: ClusterAccess,
    admin: str | None,
    target_admin: str | None,
) -> None:
    """Have the hub of a cluster that clients reach at HUB, host:port, own a topic in place of its owner.

    The owner releases it and HUB claims it at once. A client that comes in between may have another hub claim it: then
    the command fails, and says which.
    """
    output = settings.writer()
    target = find_hub(settings, cluster, hub)
    finder = OwnerFinder(settings, cluster, admin)
    address = target_admin or target.admin
    if address is None:
        raise CommandError(
            f"{settings.command} failed on hub {hub_name(target.info)}: it announces no admin endpoint; it is an "
            "original hub, or runs with admin_port = -1"
        )
    endpoint = finder.endpoint_of(target.info, address)
    _check_target(settings, endpoint, target.info.address, hub_name(target.info))
    owner = finder.find_existing(name)
    _check_version(owner, expected_version)
    is_there = owner.record is not None and owner.record.value.address == target.info.address
    was_released = not is_there and _release(settings, owner, leave=True)
    told = _claim(settings, name, endpoint, hub_name(target.info), was_released)
    output.record(
        name_fields(name)
        | {
            "result": "unchanged" if is_there and owner.state is OwnerState.ALIVE else "moved",
            "from": owner.hub or None,
            "owner": hub_name(target.info),
            "version": told["owner_version"],
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


def _check_version(owner: TopicOwner, expected: Version | None) -> None:
    record = owner.record
    if expected is None or (record is not None and record.version == expected):
        return
    name = show_name(owner.topic)
    if record is None:
        raise CommandError(f"topic {name!r} has no owner, so its owner record has no version", ExitCode.NOT_FOUND)
    raise BadVersionError(f"the owner record of topic {name!r} is at version {record.version}, not {expected}", record)


def _release(settings: Settings, owner: TopicOwner, *, leave: bool) -> bool:
    """Have the owner release the topic; return False if nobody owns it, or whoever did is gone.

    Raises: CommandError - the owner refuses, does not answer, or may be alive and cannot be asked.
    """
    name = show_name(owner.topic)
    if owner.state is OwnerState.UNKNOWN:
        raise CommandError(
            f"{settings.command} failed on topic {name!r}: whether its owner {owner.hub} is alive is not known: "
            f"{owner.why}",
            ExitCode.UNAVAILABLE,
        )
    if owner.state is not OwnerState.ALIVE:
        return False
    assert owner.record is not None, "who is alive is on record"
    path = named("/release", topic=owner.topic, leave="on" if leave else None, version=str(owner.record.version))
    try:
        owner.asked(settings.command).post(path)
    except RefusedError as exc:
        if exc.status != _NOT_FOUND:
            raise
        return False  # It released the topic by itself meanwhile, or has not come to it since it claimed it.
    return True


def _claim(settings: Settings, topic: Topic, endpoint: AdminEndpoint, hub: str, was_released: bool) -> Any:
    """Have the hub claim the topic, and return what it says. Raises CommandError, with who owns it instead."""
    name = show_name(topic)
    deadline = time.monotonic() + settings.operation_timeout_s()
    while True:
        try:
            return endpoint.post(named("/claim", topic=topic))
        except RefusedError as exc:
            reason = exc.answer.get("reason")
            # It gave the topic up itself lately, and for some seconds leaves it to others.
            if reason == "left" and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            if reason == "owned":
                owner = str(exc.answer.get("owner"))
                since = "claimed it meanwhile" if was_released else "owns it"
                raise CommandError(
                    f"{settings.command} failed on topic {name!r}: hub {hub} did not get it: {owner} {since}; move it "
                    "again to try anew",
                    ExitCode.VERSION_CONFLICT,
                ) from exc
            left = "; it was released, and is nobody's until it is used" if was_released else ""
            raise CommandError(
                f"{settings.command} failed on topic {name!r}: hub {hub} did not claim it: {exc.said}{left}", exc.code
            ) from exc


def _check_target(settings: Settings, endpoint: AdminEndpoint, address: str, hub: str) -> None:
    """Raise CommandError unless the hub can take topics: before anybody gives one up for it."""
    health = endpoint.get("/health")
    if health.get("address") != address:
        raise CommandError(
            f"{settings.command} failed on hub {hub}: what answers at {endpoint.address} is hub "
            f"{health.get('address')}; name a way to the right one with --target-admin HOST:PORT"
        )
    if endpoint.get("/drain")["draining"]:
        raise CommandError(
            f"{settings.command} failed on hub {hub}: it is drained, and takes no topics; hedwig-admin hub undrain "
            f"{hub} ends that"
        )
