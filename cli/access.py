"""How a command reaches the store: opened for one piece of work, and closed whatever becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cli.errors import CommandError
from cli.settings import Settings
from metadata import MetadataStore, open_metadata
from metadata.freezing import read_freeze

__all__ = ["refuse_frozen", "with_store", "with_store_to_write"]

T = TypeVar("T")


def with_store(settings: Settings, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Return what `work` returns, given the open store; Ctrl-C cancels it and closes the store."""

    async def run() -> T:
        async with await open_metadata(settings.url, settings.store_options(**options)) as store:
            return await work(store)

    return asyncio.run(run())


def with_store_to_write(settings: Settings, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Do the same for work that changes records, unless the store is frozen or was moved.

    Raises: CommandError - as `refuse_frozen`, before `work` begins.
    """

    async def check_first(store: MetadataStore) -> T:
        await refuse_frozen(settings, store)
        return await work(store)

    return with_store(settings, check_first, **options)


async def refuse_frozen(settings: Settings, store: MetadataStore) -> None:
    """Return if the records of a store may be changed.

    Raises: CommandError - a migration has it frozen, or has moved what it held: nobody would miss what is written now.
    """
    found = await read_freeze(store.named_records)
    if found is not None and found.forbids_writes:
        raise CommandError(
            f"{settings.command}: {found.what}; nothing was changed: use the new store once the migration is done, or "
            f"go back to this one with: hedwig-admin metadata thaw --metadata {settings.url_to_show}"
        )
