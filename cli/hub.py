"""The commands `hedwig-admin hub …`: the hubs of a cluster, and emptying one before maintenance."""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from cli.admin_endpoint import AdminEndpoint
from cli.cluster_access import ClusterAccess, cluster_options, find_hub, read_cluster
from cli.errors import CommandError, ExitCode, counted
from cli.hub_names import complete_hub
from cli.program import AdminGroup
from cli.selection import NAME, Selection, cut, list_options
from cli.settings import Settings, pass_settings

if TYPE_CHECKING:
    from hub.liveness import LiveHub

__all__ = ["hub"]

_COLUMNS: Final = ("hub", "state", "topics", "admin", "ssl_port", "epoch")
_SHOWN: Final = ("hub", "state", "topics", "admin")
_LEVELS: Final = (
    "topics",
    "acquiring_topics",
    "channels",
    "attached_subscriptions",
    "unanswered_bytes",
    "unfinished_bytes",
    "cache_bytes",
    "waiting_consume_pointers",
)
_RATES: Final = {
    "published_messages": "publishes_per_s",
    "delivered_messages": "deliveries_per_s",
    "read_messages": "reads_per_s",
    "refused_requests": "refusals_per_s",
}
_LOAD_COLUMNS: Final = ("hub", *_LEVELS, *_RATES.values(), "rates_over_s")
_LOAD_SHOWN: Final = ("hub", "topics", "channels", "publishes_per_s", "deliveries_per_s")
_POLL_S: Final = 0.25
_SAY_EVERY_S: Final = 5.0


@click.group(cls=AdminGroup, example="hedwig-admin hub list --cluster zookeeper://127.0.0.1:2181/hedwig/standalone")
def hub() -> None:
    """List the hubs of a cluster, look at them, and empty one before maintenance."""


@hub.command("list", example="hedwig-admin hub list --cluster zookeeper://127.0.0.1:2181/hedwig/standalone")
@list_options(NAME)
@cluster_options()
@pass_settings
def list_hubs(settings: Settings, /, selection: Selection, cluster: ClusterAccess) -> None:
    """List the hubs that are alive, by address, with the topics that each said it owns a moment ago."""
    output = settings.writer()
    output.begin("hubs", _COLUMNS, _SHOWN)
    hubs, token = cut(selection, "hubs", read_cluster(settings, cluster), lambda found: _name(found).encode())
    output.page([_fields(found) for found in hubs])
    output.end(token)


def _admin_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--admin", metavar="HOST:PORT", help="A way to the hub's admin endpoint, in place of the one it announces."
    )


@hub.command("show", example="hedwig-admin hub show 127.0.0.1:4080")
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@cluster_options()
@_admin_option()
@pass_settings
def show_hub(settings: Settings, hub: str, cluster: ClusterAccess, admin: str | None) -> None:
    """Show the hub that clients reach at HUB, host:port: what it has to do, and what hinders it."""
    output = settings.writer()
    found = find_hub(settings, cluster, hub)
    endpoint, health = _endpoint(settings, found, admin)
    load, drain = endpoint.get("/load"), endpoint.get("/drain")
    output.record(
        _fields(found)
        | {
            "state": _state(drain["draining"], drain["topics"]),
            "topics": drain["topics"],
            "uptime_s": health["uptime_s"],
            "hindrances": health["hindrances"],
            "channels": load["channels"],
            "attached_subscriptions": load["attached_subscriptions"],
            "publishes_per_s": load["rates_per_s"]["published_messages"],
            "deliveries_per_s": load["rates_per_s"]["delivered_messages"],
            "rates_over_s": load["rates_over_s"],
        }
    )


@hub.command("load", example="hedwig-admin hub load")
@click.argument("hub", metavar="[HUB]", required=False, shell_complete=complete_hub)
@cluster_options()
@_admin_option()
@pass_settings
def show_load(settings: Settings, hub: str | None, cluster: ClusterAccess, admin: str | None) -> None:
    """Show what the hubs of a cluster, or the one at HUB, host:port, have to do, with rates over the last minute.

    A hub that does not answer is a row without numbers, and makes the command fail in the end.
    """
    if admin is not None and hub is None:
        raise click.UsageError("--admin goes with HUB")
    output = settings.writer()
    hubs = read_cluster(settings, cluster) if hub is None else (find_hub(settings, cluster, hub),)
    errors: list[CommandError] = []
    output.begin("hubs", _LOAD_COLUMNS, _LOAD_SHOWN)
    for found in hubs:
        load: dict[str, Any] | None = None
        try:
            endpoint, _ = _endpoint(settings, found, admin)
            load = endpoint.get("/load")
        except CommandError as exc:
            errors.append(exc)
        output.page([_load_fields(found, load)])
    output.end()
    if len(errors) == 1:
        raise errors[0]
    if errors:
        for error in errors:
            click.echo(f"error: {error}", err=True)
        raise CommandError(
            f"{settings.command}: {len(errors)} of {len(hubs)} hubs did not say, each is named above", errors[0].code
        )


@hub.command("drain", example="hedwig-admin hub drain 127.0.0.1:4080 --wait")
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@cluster_options()
@_admin_option()
@click.option("--wait", is_flag=True, help="Return when the hub has no topic any more.")
@click.option(
    "--within", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True), help="With --wait: how long at most."
)
@click.option("--dry-run", is_flag=True, help="Say how many topics it would give up, and change nothing.")
@pass_settings
def drain_hub(
    settings: Settings,
    /,
    hub: str,
    cluster: ClusterAccess,
    admin: str | None,
    wait: bool,
    within: float | None,
    dry_run: bool,
) -> None:
    """Have the hub at HUB, host:port, give all its topics up to others, and take no more, until it is undrained.

    A drained hub can be stopped without anybody noticing. It forgets that it was drained when it starts again.
    """
    if within is not None and not wait:
        raise click.UsageError("--within goes with --wait")
    output = settings.writer()
    found = find_hub(settings, cluster, hub)
    endpoint, _ = _endpoint(settings, found, admin)
    told = endpoint.get("/drain") if dry_run else endpoint.post("/drain?state=on")
    if told["topics"] and not told["other_hubs"]:
        keeps = "would keep" if dry_run else "keeps"
        click.echo(f"there is no other hub to take its topics: it {keeps} them until there is one", err=True)
    if dry_run:
        output.record({"hub": _name(found), "result": "would drain"} | _drained(found, told))
        return
    if wait:
        told = _wait_until_empty(settings, found, endpoint, told, within)
    output.record(_drained(found, told))


@hub.command("undrain", example="hedwig-admin hub undrain 127.0.0.1:4080")
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@cluster_options()
@_admin_option()
@pass_settings
def undrain_hub(settings: Settings, hub: str, cluster: ClusterAccess, admin: str | None) -> None:
    """Have the hub at HUB, host:port, take topics again."""
    output = settings.writer()
    found = find_hub(settings, cluster, hub)
    endpoint, _ = _endpoint(settings, found, admin)
    output.record(_drained(found, endpoint.post("/drain?state=off")))


def _fields(found: "LiveHub") -> dict[str, Any]:
    return {
        "hub": _name(found),
        "state": "draining" if found.is_draining else "serving",
        # While it drains, what it announces in place of a number keeps topics away from it.
        "topics": None if found.is_draining else found.load,
        "admin": found.admin,
        "ssl_port": found.info.ssl_port,
        "epoch": found.info.epoch,
    }


def _load_fields(found: "LiveHub", load: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a hub says of its load; nothing but its name if it did not."""
    if load is None:
        return {"hub": _name(found)} | dict.fromkeys(_LOAD_COLUMNS[1:])
    return (
        {"hub": _name(found)}
        | {name: load[name] for name in _LEVELS}
        | {name: load["rates_per_s"][counter] for counter, name in _RATES.items()}
        | {"rates_over_s": load["rates_over_s"]}
    )


def _drained(found: "LiveHub", told: dict[str, Any]) -> dict[str, Any]:
    return {"hub": _name(found), "state": _state(told["draining"], told["topics"]), "topics": told["topics"]}


def _state(draining: bool, topics: int) -> str:
    if not draining:
        return "serving"
    return "draining" if topics else "drained"


def _name(found: "LiveHub") -> str:
    return found.info.name


def _endpoint(settings: Settings, found: "LiveHub", admin: str | None) -> tuple[AdminEndpoint, dict[str, Any]]:
    """Return the admin endpoint of a hub, and its health. Raises CommandError if it has none, or is another hub's."""
    address = admin or found.admin
    if address is None:
        raise CommandError(
            f"{settings.command} failed on hub {_name(found)}: it announces no admin endpoint; it is an original hub, "
            "or runs with admin_port = -1"
        )
    endpoint = AdminEndpoint(settings.command, _name(found), address, settings.operation_timeout_s())
    health = endpoint.get("/health")
    if health.get("address") != found.info.address:
        raise CommandError(
            f"{settings.command} failed on hub {_name(found)}: what answers at {address} is hub "
            f"{health.get('address')}; name a way to the right one with --admin HOST:PORT"
        )
    return endpoint, health


def _wait_until_empty(
    settings: Settings, found: "LiveHub", endpoint: AdminEndpoint, told: dict[str, Any], within_s: float | None
) -> dict[str, Any]:
    """Ask until the hub has no topic. Ctrl-C and the end of the time leave the drain as it is, and say so."""
    began_at, said_at = time.monotonic(), -math.inf
    try:
        while told["topics"] and told["draining"]:
            now = time.monotonic()
            if within_s is not None and now - began_at >= within_s:
                raise CommandError(
                    f"{settings.command}: hub {_name(found)} has {counted(told['topics'], 'topic')} left after "
                    f"{within_s:g} s; {_GOES_ON}",
                    ExitCode.OUTCOME_UNKNOWN,
                )
            if now - said_at >= _SAY_EVERY_S:
                said_at = now
                click.echo(f"draining: {counted(told['topics'], 'topic')} left", err=True)
            time.sleep(_POLL_S)
            told = endpoint.get("/drain")
    except KeyboardInterrupt:
        click.echo(f"{counted(told['topics'], 'topic')} left; {_GOES_ON}", err=True)
        raise
    if not told["draining"]:
        raise CommandError(f"{settings.command}: somebody undrained hub {_name(found)} meanwhile")
    return told


_GOES_ON: Final = "the drain goes on; hedwig-admin hub undrain ends it"
