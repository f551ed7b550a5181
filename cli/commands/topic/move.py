"""topic move: makes another hub of the cluster the owner of a topic.

The owner writes the other hub into the owner record, and then the command asks that hub to acquire the topic. If the
command ends in between, the topic belongs to the other hub all the same: it acquires the topic at the next request. If
others change the owner at the same moment, the command looks again, unless the user gave a version of the record.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.names import TOPIC, VERSION
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.hub_names import complete_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import BadVersionError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.model import HubInfo, Topic
from hedwig.names import name_fields, show_name
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError, named
from hedwig.operations.deployment.cluster import find_hub
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.topic_owner import OwnerFinder, TopicOwner
from hedwig.operations.topics.releases import is_to_be_asked
from hedwig.versions import Version

__all__ = ["check_version", "expected_version_option", "move_topic"]

_LOST: Final = frozenset({"owned", "version"})
"""The reasons of a hub's refusal that mean that others were faster."""

expected_version_option: Final = click.option(
    "--expected-version", type=VERSION, metavar="VERSION", help="Only if the owner record is at this version."
)


@click.command("move", cls=AdminCommand, example="hedwig-admin topic move news 127.0.0.1:4080")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@expected_version_option
@click.option("--dry-run", is_flag=True, help="Look whether it can be done, and change nothing.")
@deployment_options(admin="the topic's owner")
@click.option("--target-admin", metavar="HOST:PORT", help="Reach the admin endpoint of HUB at this address.")
@pass_settings
def move_topic(
    settings: Settings,
    /,
    name: Topic,
    hub: str,
    expected_version: Version | None,
    dry_run: bool,
    deployment: Deployment,
    target_admin: str | None,
) -> None:
    """Make the hub of a cluster that clients reach at HUB, host:port, the owner of a topic.

    The old owner stores consume pointers, closes the connections that serve subscriptions of the topic, and names HUB
    as the owner. Requests that come meanwhile wait, and are sent to HUB. HUB claims a topic that no hub owns.
    """
    output = settings.writer()
    target = _find_target(deployment, hub, target_admin)
    deadline = time.monotonic() + settings.deployment.timeout_s
    while True:
        owner = OwnerFinder(deployment).find_existing(name)
        check_version(owner, expected_version)
        try:
            moved = _look(settings, owner, target) if dry_run else _move(settings, owner, target, expected_version)
        except _OvertakenError as exc:
            if expected_version is None and time.monotonic() < deadline:
                continue
            raise exc.refused from exc
        output.record(name_fields(name) | {**moved, "from": owner.hub or None, "owner": target.hub.name})
        return


@dataclass(frozen=True, slots=True)
class _Target:
    """The new owner of the topic, and its admin endpoint."""

    hub: HubInfo
    endpoint: AdminClient

    def owns(self, owner: TopicOwner) -> bool:
        """Say whether this start of the hub is the owner."""
        current = None if owner.record is None else owner.record.value
        return current is not None and (current.address, current.epoch) == (self.hub.address, self.hub.epoch)


class _OvertakenError(Exception):
    """Others changed the owner between the look and the move. `refused` says how."""

    def __init__(self, refused: OperationError) -> None:
        super().__init__(str(refused))
        self.refused = refused


def _find_target(deployment: Deployment, name: str, admin: str | None) -> _Target:
    """Return the hub called `name`. Raises OperationError unless it takes topics. Call it before a release."""
    live = find_hub(deployment, name)
    hub = live.info.name
    failed = f"{deployment.command} failed on hub {hub}"
    address = admin or live.admin
    if address is None:
        raise OperationError(
            f"{failed}: it announces no admin endpoint; it is an original hub, or runs with admin_port = -1"
        )
    endpoint = deployment.admin_client(hub, address)
    health = endpoint.health()
    if health.get("address") != live.info.address:
        raise OperationError(
            f"{failed}: hub {health.get('address')} answers at {endpoint.address}; give the address of the right one "
            "with --target-admin HOST:PORT"
        )
    try:
        endpoint.get("/claim")
    except RefusedError as exc:
        said = exc.said
        if exc.answer.get("reason") == "drained":
            said = f"it is drained, and takes no topics; hedwig-admin hub undrain {hub} ends that"
        raise OperationError(f"{failed}: {said}") from exc
    return _Target(live.info, endpoint)


def _look(settings: Settings, owner: TopicOwner, target: _Target) -> Mapping[str, Any]:
    """Say what a move would do, as far as that is known."""
    is_there = target.owns(owner)
    if is_to_be_asked(settings.command, owner) and not is_there:
        owner.asked(settings.command).health()
    version = None if owner.record is None else str(owner.record.version)
    return {"result": "unchanged" if is_there else "would move", "version": version}


def _move(settings: Settings, owner: TopicOwner, target: _Target, expected: Version | None) -> Mapping[str, Any]:
    """Make `target` the owner. Raises _OvertakenError; OperationError - it is not the owner, or that is not known."""
    if target.owns(owner):
        return {"result": "unchanged", "version": _claim(settings, owner, target)["owner_version"]}
    if not is_to_be_asked(settings.command, owner):
        return {"result": "moved", "version": _claim(settings, owner, target, expected)["owner_version"]}
    is_named = _hand_over(settings, owner, target)
    return {"result": "moved", "version": _claim(settings, owner, target, is_named=is_named)["owner_version"]}


def _hand_over(settings: Settings, owner: TopicOwner, target: _Target) -> bool:
    """Have the owner write `target` into the owner record; return whether that is known to be done."""
    assert owner.record is not None, "who is alive is on record"
    path = named(
        "/release",
        topic=owner.topic,
        to=target.hub.address,
        epoch=target.hub.epoch,
        version=str(owner.record.version),
    )
    try:
        answer = owner.asked(settings.command).post(path)
    except OperationError as exc:
        reason = exc.answer.get("reason") if isinstance(exc, RefusedError) else None
        if reason in _LOST:
            raise _OvertakenError(exc) from exc
        if reason == "target":
            raise OperationError(
                f"{settings.command} failed on hub {target.hub.name}: the owner, {owner.hub}, sees that "
                f"hub {target.hub.name} ended, or was started again; nothing was changed",
                ExitCode.UNAVAILABLE,
            ) from exc
        if exc.code is not ExitCode.OUTCOME_UNKNOWN:
            raise
        _claim_in_doubt(settings, owner, target, exc)
        return True
    return bool(answer["owner"])


def _claim_in_doubt(settings: Settings, owner: TopicOwner, target: _Target, error: OperationError) -> None:
    """Ask the target itself whether it is the owner now. Raises `error` unless it has the topic."""
    try:
        _claim(settings, owner, target)
    except (_OvertakenError, OperationError):
        raise error from None


def _claim(
    settings: Settings, owner: TopicOwner, target: _Target, expected: Version | None = None, *, is_named: bool = False
) -> Any:
    """Have the target serve the topic, and return its answer. `is_named`: the owner record names it already."""
    path = named("/claim", topic=owner.topic, version=None if expected is None else str(expected))
    name, hub = show_name(owner.topic), target.hub.name
    failed = f"{settings.command} failed on topic '{name}'"
    try:
        return target.endpoint.post(path)
    except OperationError as exc:
        if isinstance(exc, RefusedError) and exc.answer.get("reason") in _LOST:
            raise _OvertakenError(
                OperationError(f"{failed}: hub {hub} did not get it: {exc.said}; move it again", exc.code)
            ) from exc
        if not is_named:
            raise
        said = exc.said if isinstance(exc, RefusedError) else str(exc)
        raise OperationError(
            f"{failed}: its owner record names hub {hub} now, which does not serve it yet: {said}. That hub will "
            "serve it once it can, and any other hub can when that hub ends",
            exc.code,
        ) from exc


def check_version(owner: TopicOwner, expected: Version | None) -> None:
    """Raise unless the owner record has the version `expected`: BadVersionError, or OperationError without a record."""
    record = owner.record
    if expected is None or (record is not None and record.version == expected):
        return
    name = show_name(owner.topic)
    if record is None:
        raise OperationError(f"topic '{name}' has no owner, so its owner record has no version", ExitCode.NOT_FOUND)
    raise BadVersionError(f"the owner record of topic '{name}' is at version {record.version}, not {expected}", record)
