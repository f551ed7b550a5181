"""How an operation reaches the store: it opens the store for one piece of work, and always closes it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hedwig.clock import SystemClock
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.freezing import Freeze, FreezeState
from hedwig.metadata.migration.freeze_watch import FreezeWatch, StoreFrozenError
from hedwig.operations.deployment.deployment import Deployment

__all__ = ["describe_freeze", "watching", "with_store", "with_store_to_load", "with_store_to_write"]

T = TypeVar("T")


def with_store(deployment: Deployment, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Open the store, and return what `work` returns. Ctrl-C cancels `work` and closes the store.

    A named store that does not exist is not made. A read-only store can be opened.
    """

    async def run() -> T:
        async with await open_metadata(deployment.url, deployment.options_to_look(**options)) as store:
            return await work(store)

    return asyncio.run(run())


def with_store_to_write(deployment: Deployment, work: Callable[[MetadataStore], Awaitable[T]], **options: Any) -> T:
    """Do the same for work that changes records, unless the store is frozen or was moved. The store may be made.

    Raises: OperationError - as `watching`.
    """
    return with_store_to_load(deployment, lambda store, watch: watch.carry_out(lambda: work(store)), **options)


def with_store_to_load(
    deployment: Deployment, work: Callable[[MetadataStore, FreezeWatch], Awaitable[T]], **options: Any
) -> T:
    """Do the same for work in many parts. `work` runs each part through the watch that it receives.

    Raises: OperationError - as `watching`.
    """

    async def watched(store: MetadataStore) -> T:
        return await watching(deployment, store, lambda watch: work(store, watch))

    return with_store(deployment, watched, **{"makes": True, "reads_only": False, **options})


async def watching(deployment: Deployment, store: MetadataStore, work: Callable[[FreezeWatch], Awaitable[T]]) -> T:
    """Return what `work` returns. It changes records through the watch that it receives.

    Raises: OperationError - a migration has frozen the store, or has moved its records, so that later writes would be
        lost; `work` did not begin, or ended at the first part that does not count as done.
    """
    watch = FreezeWatch(store.named_records, SystemClock())
    try:
        await watch.check()
    except StoreFrozenError as exc:
        raise OperationError(
            f"{deployment.command}: {exc}; nothing was changed: use the new store once the migration is done, or "
            f"{_back(deployment)}"
        ) from exc
    try:
        return await work(watch)
    except StoreFrozenError as exc:
        raise OperationError(
            f"{deployment.command}: {exc}, since this command began. The new store has all that the command reported "
            "as done, but may lack the writes under way. Once the migration is done, run the command again with "
            f"--metadata {exc.freeze.target}, or {_back(deployment)}",
            ExitCode.OUTCOME_UNKNOWN,
        ) from exc


def describe_freeze(deployment: Deployment, freeze: Freeze) -> str:
    """Return what it means that a store is frozen or was moved, and what to do."""
    if freeze.state is FreezeState.MOVED:
        return f"{freeze.what}: no hub starts on this store; use the new one, or {_back(deployment)}"
    return (
        f"{freeze.what}: hubs write nothing until that is over; if no migration runs any more, lift it with: "
        f"hedwig-admin metadata thaw --metadata {deployment.url_to_show}"
    )


def _back(deployment: Deployment) -> str:
    return f"go back to this one with: hedwig-admin metadata thaw --metadata {deployment.url_to_show}"
