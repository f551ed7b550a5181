"""The commands `hedwig-admin hub …`: hubs of a cluster or a standalone hub, and draining a hub for maintenance."""

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from hedwig.cli.arguments.selection import NAME, Selection, cut, list_options
from hedwig.cli.commands.hub.asking import write_answers
from hedwig.cli.commands.hub.topics import list_topics_of_hub
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.hub_names import complete_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import ConfigurationError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.operations.deployment.cluster import pick_hub, read_cluster
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.reached_hub import ReachedHub, hubs_of_cluster, reach_hub

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

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
    """List the hubs of a cluster, look at them, and empty one before maintenance.

    Without a cluster, show and load ask the standalone hub: the one at --admin, else the one that the store names.
    """


@hub.command("list", example="hedwig-admin hub list --cluster zookeeper://127.0.0.1:2181/hedwig/standalone")
@list_options(NAME)
@deployment_options()
@pass_settings
def list_hubs(settings: Settings, /, selection: Selection, deployment: Deployment) -> None:
    """List the hubs that are alive, by address, with the number of topics that each announced a moment ago."""
    output = settings.writer()
    try:
        _ = deployment.cluster_url
    except ConfigurationError as exc:
        raise ConfigurationError(f"{exc}; a standalone hub is in no list; show it with: hedwig-admin hub show") from exc
    output.begin("hubs", _COLUMNS, _SHOWN)
    hubs, token = cut(selection, "hubs", read_cluster(deployment), lambda live: _name(live).encode())
    output.page([_fields(live) for live in hubs])
    output.end(token)


@hub.command("show", example="hedwig-admin hub show 127.0.0.1:4080")
@click.argument("hub", metavar="[HUB]", required=False, shell_complete=complete_hub)
@deployment_options(admin="the hub")
@pass_settings
def show_hub(settings: Settings, hub: str | None, deployment: Deployment) -> None:
    """Show the hub that clients reach at HUB, host:port: its load, and what hinders it.

    A standalone hub needs no HUB. It is the one at --admin, else the one that the store names.
    """
    output = settings.writer()
    reached = reach_hub(deployment, hub)
    health, load, drain = reached.health, reached.endpoint.get("/load"), reached.endpoint.get("/drain")
    output.record(
        _fields_of(reached)
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
@deployment_options(admin="the hub")
@pass_settings
def show_load(settings: Settings, hub: str | None, deployment: Deployment) -> None:
    """Show the load of the hubs of a cluster, or of the one at HUB, host:port, with rates over the last minute.

    A hub of the cluster that does not answer is a row without numbers, and makes the command fail in the end. Without a
    cluster, the command asks the standalone hub: the one at --admin, else the one that the store names.
    """
    output = settings.writer()
    live = hubs_of_cluster(deployment)
    if live is None:
        reached = reach_hub(deployment, hub)
        load = reached.endpoint.get("/load")
        output.begin("hubs", _LOAD_COLUMNS, _LOAD_SHOWN)
        output.page([_load_fields(reached.name, load)])
        output.end()
        return
    if hub is not None:
        live = (pick_hub(deployment, live, hub),)
    elif "admin" in settings.flags:
        raise click.UsageError("--admin goes with HUB")
    else:
        deployment = replace(deployment, admin=None)
    output.begin("hubs", _LOAD_COLUMNS, _LOAD_SHOWN)
    write_answers(deployment, output, live, "/load", _load_fields)


@hub.command("drain", example="hedwig-admin hub drain 127.0.0.1:4080 --wait")
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@deployment_options(admin="the hub")
@click.option("--wait", is_flag=True, help="Return when the hub has no topic any more.")
@click.option(
    "--within",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="With --wait: wait at most SECONDS.",
)
@click.option("--dry-run", is_flag=True, help="Say how many topics it would give up, and change nothing.")
@pass_settings
def drain_hub(
    settings: Settings,
    /,
    hub: str,
    deployment: Deployment,
    wait: bool,
    within: float | None,
    dry_run: bool,
) -> None:
    """Have the hub at HUB, host:port, give all its topics to other hubs, and take none until it is undrained.

    Clients do not notice when a drained hub is stopped. A hub that starts again is not drained any more.
    """
    if within is not None and not wait:
        raise click.UsageError("--within goes with --wait")
    output = settings.writer()
    reached = reach_hub(deployment, hub)
    drain = reached.endpoint.get("/drain") if dry_run else reached.endpoint.post("/drain?state=on")
    if drain["topics"] and not drain["other_hubs"]:
        keeps = "would keep" if dry_run else "keeps"
        click.echo(f"there is no other hub to take its topics: it {keeps} them until there is one", err=True)
    if dry_run:
        output.record({"hub": reached.name, "result": "would drain"} | _drained(reached, drain))
        return
    if wait:
        drain = _wait_until_empty(settings, reached, drain, within)
    output.record(_drained(reached, drain))


@hub.command("undrain", example="hedwig-admin hub undrain 127.0.0.1:4080")
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@deployment_options(admin="the hub")
@pass_settings
def undrain_hub(settings: Settings, hub: str, deployment: Deployment) -> None:
    """Have the hub at HUB, host:port, take topics again."""
    output = settings.writer()
    reached = reach_hub(deployment, hub)
    output.record(_drained(reached, reached.endpoint.post("/drain?state=off")))


hub.add_command(list_topics_of_hub)


def _fields(live: "LiveHub") -> dict[str, Any]:
    return {
        "hub": _name(live),
        "state": "draining" if live.is_draining else "serving",
        # While a hub drains, it announces a number that keeps topics away from it, in place of its load.
        "topics": None if live.is_draining else live.load,
        "admin": live.admin,
        "ssl_port": live.info.ssl_port,
        "epoch": live.info.epoch,
    }


def _fields_of(reached: ReachedHub) -> dict[str, Any]:
    """Return the same fields of a hub that answers, also of a standalone one."""
    if reached.announced is not None:
        return _fields(reached.announced)
    return {
        "hub": reached.name,
        "state": None,
        "topics": None,
        "admin": reached.endpoint.address,
        "ssl_port": reached.info.ssl_port,
        "epoch": reached.info.epoch,
    }


def _load_fields(name: str, load: dict[str, Any] | None) -> dict[str, Any]:
    """Return the load as the hub reported it; only the name if it did not answer."""
    if load is None:
        return {"hub": name} | dict.fromkeys(_LOAD_COLUMNS[1:])
    return (
        {"hub": name}
        | {name: load[name] for name in _LEVELS}
        | {name: load["rates_per_s"][counter] for counter, name in _RATES.items()}
        | {"rates_over_s": load["rates_over_s"]}
    )


def _drained(reached: ReachedHub, drain: dict[str, Any]) -> dict[str, Any]:
    return {"hub": reached.name, "state": _state(drain["draining"], drain["topics"]), "topics": drain["topics"]}


def _state(draining: bool, topics: int) -> str:
    if not draining:
        return "serving"
    return "draining" if topics else "drained"


def _name(live: "LiveHub") -> str:
    return live.info.name


def _wait_until_empty(
    settings: Settings, reached: ReachedHub, drain: dict[str, Any], within_s: float | None
) -> dict[str, Any]:
    """Ask until the hub has no topic. Ctrl-C or the end of the time leaves the hub draining, and reports that."""
    began_at, said_at = time.monotonic(), -math.inf
    try:
        while drain["topics"] and drain["draining"]:
            now = time.monotonic()
            if within_s is not None and now - began_at >= within_s:
                raise OperationError(
                    f"{settings.command}: hub {reached.name} has {counted(drain['topics'], 'topic')} left after "
                    f"{within_s:g} s; {_GOES_ON}",
                    ExitCode.OUTCOME_UNKNOWN,
                )
            if now - said_at >= _SAY_EVERY_S:
                said_at = now
                click.echo(f"draining: {counted(drain['topics'], 'topic')} left", err=True)
            time.sleep(_POLL_S)
            drain = reached.endpoint.get("/drain")
    except KeyboardInterrupt:
        click.echo(f"{counted(drain['topics'], 'topic')} left; {_GOES_ON}", err=True)
        raise
    if not drain["draining"]:
        raise OperationError(f"{settings.command}: another command undrained hub {reached.name} meanwhile")
    return drain


_GOES_ON: Final = "the drain goes on; hedwig-admin hub undrain ends it"
