"""How a command reaches the store: opened for one piece of work, and closed whatever becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from hedwig.cli.errors import CommandError, ExitCode
from hedwig.cli.settings.settings import Settings
from hedwig.clock import SystemClock
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.freezing import Freeze, FreezeState, read_freeze
from hedwig.metadata.migration.freeze_watch import FreezeWatch, StoreFrozenError

__all__ = ["say_if_frozen", "told_of_freeze", "watching", "with_store", "with_store_to_load", "with_store_to_write"]

T = TypeVar("T")


def with_store(settings: Settings, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Return what `work` returns, given the open store; Ctrl-C cancels it and closes the store.

    A store that was named and is not there is not made, and one that may only be read is opened.
    """

    async def run() -> T:
        async with await open_metadata(settings.url, settings.options_to_look(**options)) as store:
            return await work(store)

    return asyncio.run(run())


def with_store_to_write(settings: Settings, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Do the same for work that changes records, unless the store is frozen or was moved; it may be made by that.

    Raises: CommandError - as `watching`.
    """
    return with_store_to_load(settings, lambda store, watch: watch.carry_out(lambda: work(store)), **options)


def with_store_to_load(
    settings: Settings, work: Callable[[MetadataStore, FreezeWatch], Awaitable[T]], **options: Any
) -> T:
    """Do the same for work in many parts, each of which `work` carries out through the watch that it is given.

    Raises: CommandError - as `watching`.
    """

    async def watched(store: MetadataStore) -> T:
        return await watching(settings, store, lambda watch: work(store, watch))

    return with_store(settings, watched, **{"makes": True, "reads_only": False, **options})


async def watching(settings: Settings, store: MetadataStore, work: Callable[[FreezeWatch], Awaitable[T]]) -> T:
    """Return what `work` returns, which changes records through a watch.

    Raises: CommandError - a migration has the store frozen, or has moved what it held: nobody would miss what is
        written then. `work` did not begin, or ended at the first part that it cannot take for done.
    """
    watch = FreezeWatch(store.named_records, SystemClock())
    try:
        await watch.check()
    except StoreFrozenError as exc:
        raise CommandError(
            f"{settings.command}: {exc}; nothing was changed: use the new store once the migration is done, or "
            f"{_back(settings)}"
        ) from exc
    try:
        return await work(watch)
    except StoreFrozenError as exc:
        raise CommandError(
            f"{settings.command}: {exc}, since this began; what it told as done is there too, of what was under "
            f"way that is not known: once the migration is done, give it again with --metadata {exc.freeze.target}, or "
            f"{_back(settings)}",
            ExitCode.OUTCOME_UNKNOWN,
        ) from exc


async def say_if_frozen(settings: Settings, store: MetadataStore) -> None:
    """Say on standard error that a store is frozen, or was moved, if it is so. Raises as `read_freeze`."""
    freeze = await read_freeze(store.named_records)
    if freeze is not None and freeze.forbids_writes:
        click.echo(told_of_freeze(settings, freeze), err=True)


def told_of_freeze(settings: Settings, freeze: Freeze) -> str:
    """Return what it means for a store that it is frozen, or was moved, and what to do."""
    if freeze.state is FreezeState.MOVED:
        return f"{freeze.what}: no hub starts on this store; use the new one, or {_back(settings)}"
    return (
        f"{freeze.what}: hubs write nothing until that is over; if no migration is at work any more, lift it with: "
        f"hedwig-admin metadata thaw --metadata {settings.url_to_show}"
    )


def _back(settings: Settings) -> str:
    return f"go back to this one with: hedwig-admin metadata thaw --metadata {settings.url_to_show}"
