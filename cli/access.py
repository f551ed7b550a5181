"""How a command reaches the store: opened for one piece of work, and closed whatever becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cli.settings import Settings
from metadata import MetadataStore, open_metadata

__all__ = ["with_store"]

T = TypeVar("T")


def with_store(settings: Settings, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Return what `work` returns, given the open store; Ctrl-C cancels it and closes the store."""

    async def run() -> T:
        async with await open_metadata(settings.url, settings.store_options(**options)) as store:
            return await work(store)

    return asyncio.run(run())
