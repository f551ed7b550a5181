"""The command `hedwig-admin top`: the load of all hubs, as it changes."""

import asyncio
import itertools
import sys
import time
from typing import Any, Final

import click

from hedwig.cli.commands.hub.top_view import SORT_KEYS, TopOrder, TopView
from hedwig.cli.output.formats import Output, TableOutput
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_survey import HubSurvey
from hedwig.operations.deployment.watched_hubs import watched_hubs

__all__ = ["top"]

_COLUMNS: Final = (
    "at",
    "hub",
    "state",
    "why",
    "topics",
    "channels",
    "attached_subscriptions",
    "attached_lag_messages",
    "publishes_per_s",
    "deliveries_per_s",
    "reads_per_s",
    "refusals_per_s",
    "claims_per_s",
    "conflicts_per_s",
)
_SHOWN: Final = ("hub", "state", "topics", "publishes_per_s", "attached_lag_messages")
_SHARE: Final = 0.8
"""The share of the time between two pictures in which the hubs may answer."""
_FIRST_S: Final = 4.0
"""The time for the first picture. A shorter one would show only that a slow hub has not answered."""


@click.command("top", cls=AdminCommand, example="hedwig-admin top --count 1")
@deployment_options(admin="the topic's owner")
@click.option(
    "--every", type=click.FloatRange(min=0.1), default=1.0, show_default=True, metavar="SECONDS", help="How often."
)
@click.option("--count", type=click.IntRange(min=1), metavar="NUMBER", help="Show the hubs NUMBER times, then end.")
@click.option(
    "--sort", type=click.Choice(list(SORT_KEYS)), default="hub", show_default=True, help="The order at first."
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option(
    "--topics",
    type=click.IntRange(0, 1000),
    default=0,
    metavar="NUMBER",
    help="On a terminal: show the NUMBER topics with the most publishes, below the hubs.",
)
@pass_settings
def top(
    settings: Settings,
    deployment: Deployment,
    every: float,
    count: int | None,
    sort: str,
    reverse: bool,
    topics: int,
) -> None:
    """Watch the load of all hubs: topics, attached subscriptions, rates, lag, refused compare-and-sets.

    Rates are since the last look; the first ones are those of the last minute. LAG is what attached subscriptions have
    not consumed. CAS-/S is how often another writer had changed a record of the metadata. On a terminal, q quits and r
    reverses the order. The first letter of a sort key sorts by it. Without a terminal, and with another -o than table,
    the command writes rows at each look. Unless -o is given, these are NDJSON, a line for each hub.

    With --topics, each hub reads through all its topics at each look. If hubs own very many topics, give --every 10.

    The hubs are those of the cluster; without one, the hub at --admin, else the standalone hub of the store.
    """
    output = settings.chosen("output")
    is_drawn = sys.stdout.isatty() and output.value == "table"
    if output.source == "default" and not is_drawn:
        settings.flags["output"] = "ndjson"
    if topics and not is_drawn:
        raise click.UsageError("--topics needs a terminal; elsewhere use: hedwig-admin topic stats NAME --watch")
    order = TopOrder(sort, reverse)
    writer = settings.writer()

    async def run() -> None:
        async with watched_hubs(deployment) as find:
            survey = HubSurvey(deployment, find, topics_max=topics)
            try:
                if is_drawn:
                    await _draw(survey, order, every, count)
                else:
                    await _write(survey, order, every, count, writer)
            finally:
                survey.close()

    asyncio.run(run())


async def _draw(survey: HubSurvey, order: TopOrder, every_s: float, count: int | None) -> None:
    """Draw a picture every `every_s` seconds, until q, or for `count` pictures."""
    from rich.console import Console
    from rich.live import Live

    from hedwig.cli.arguments.keys import Keys

    readings = await survey.look(_FIRST_S)  # An error of the first look ends the command before the screen is used.
    console = Console()
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        for number in itertools.count(1):
            began = time.monotonic()
            if number > 1:
                readings = await survey.look(every_s * _SHARE)
            while True:
                view = TopView(readings, order, survey.trouble, every_s, survey.busiest())
                live.update(view.render(console.width, console.height), refresh=True)
                if number == count:
                    return
                left_s = began + every_s - time.monotonic()
                key = await keys.next(left_s) if left_s > 0 else None
                if key is None:
                    break
                if key == "q":
                    return
                order = _reordered(order, key)


def _reordered(order: TopOrder, key: str) -> TopOrder:
    """Return the order that a key chooses; the same order for any other key."""
    if key == "r":
        return TopOrder(order.key, not order.is_reversed)
    return next((TopOrder(name) for name in SORT_KEYS if name[0] == key), order)


async def _write(survey: HubSurvey, order: TopOrder, every_s: float, count: int | None, output: Output) -> None:
    """Write rows again and again, until Ctrl-C, or `count` times: a table each time, else one listing."""
    is_table = isinstance(output, TableOutput)
    is_begun = False
    try:
        for number in itertools.count(1):
            began = time.monotonic()
            readings = await survey.look(_FIRST_S if number == 1 else every_s * _SHARE)
            if not is_begun:
                output.begin("hubs", _COLUMNS, _SHOWN)
                is_begun = True
            if survey.trouble is not None:
                click.echo(f"error: {survey.trouble}", err=True)
            at = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            output.page([{"at": at} | _rounded(reading.fields()) for reading in order.sorted(readings)])
            if is_table:  # The next table has its own header, below an empty line.
                output.end()
                is_begun = False
            if number == count:
                break
            if is_table:
                click.echo()
            await asyncio.sleep(max(0.0, began + every_s - time.monotonic()))
    finally:
        if is_begun:
            output.end()


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
