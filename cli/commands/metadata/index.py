"""The command `hedwig-admin metadata index`: the index of subscriptions by subscriber of a store in HBase."""

from typing import Final

import click

from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.metadata import IndexState, MetadataStore
from hedwig.metadata.bulk.subscriber_index import enter_all
from hedwig.operations.deployment.store import with_store, with_store_to_load
from hedwig.operations.progress import load_progress

__all__ = ["index_store"]

_NONE: Final = "none"


@click.command("index", cls=AdminCommand, example="hedwig-admin metadata index")
@click.option(
    "--begin", "step", flag_value="begin", help="Let hubs and commands that start from now on keep the index."
)
@click.option("--build", "step", flag_value="build", help="Enter all subscriptions; once every hub keeps the index.")
@click.option("--end", "step", flag_value="end", help="Let hubs and commands that start from now on not keep it.")
@pass_settings
def index_store(settings: Settings, step: str | None) -> None:
    """Show whether the store keeps an index of subscriptions by subscriber; begin, build or end it.

    With the index, subscription list --subscriber and unsubscribe --all read only what they need. A new subscription
    costs one more write. The index is off (nobody keeps it), kept (subscriptions from before may be missing) or whole.
    None: SQLite finds subscribers without such an index, and in ZooKeeper all subscriptions are read.
    """
    url = settings.deployment.url
    state = with_store(settings.deployment, _state)
    entered: int | None = None
    if step is not None:
        if state is None:
            raise OperationError(f"{settings.command}: {url} has no such index: it is for HBase")
        if step == "build" and state is IndexState.OFF:
            raise OperationError(
                f"{settings.command}: nobody keeps the index of {url}: give metadata index --begin, restart every hub, "
                "and then give metadata index --build"
            )
        if step == "begin" and state is IndexState.OFF:
            state = _set(settings, IndexState.KEPT)
            click.echo(
                "from now on, hubs that start keep the index: restart every hub, then give metadata index --build",
                err=True,
            )
        elif step == "build":
            entered = _build(settings)
            state = _set(settings, IndexState.WHOLE)
        elif step == "end":
            state = _set(settings, IndexState.OFF)
            click.echo("hubs that run keep the index until they are restarted", err=True)
    row = {"metadata": url, "index": _NONE if state is None else state.value}
    settings.writer().record(row if entered is None else {**row, "entered": entered})


async def _state(store: MetadataStore) -> IndexState | None:
    return store.index_state


def _set(settings: Settings, state: IndexState) -> IndexState:
    with_store_to_load(settings.deployment, lambda store, watch: watch.carry_out(lambda: store.set_index_state(state)))
    return state


def _build(settings: Settings) -> int:
    async def build(store: MetadataStore) -> int:
        with load_progress("entering subscriptions", None, noun="subscriptions") as progress:
            return await enter_all(store, lambda number: progress.advance(number, 0))

    return with_store_to_load(settings.deployment, lambda store, watch: watch.carry_out(lambda: build(store)))
