"""The command `hedwig-admin metadata thaw`: lets hubs write again to a store that a migration froze, or moved."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.freezing import Freeze, FreezeState, read_freeze, replace_freeze
from hedwig.operations.deployment.store import with_store

__all__ = ["thaw_store"]


@click.command("thaw", cls=AdminCommand, example="hedwig-admin metadata thaw --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the state of the store, and change nothing.")
@pass_settings
def thaw_store(settings: Settings, yes: bool, dry_run: bool) -> None:
    """Let hubs write to a store again that a migration froze, or moved elsewhere.

    Hubs that use the store continue within a second or two. A migration that still runs fails, and can be given again.
    What hubs have written to the target of a finished migration does not come back.
    """
    output = settings.writer()

    async def thaw(store: MetadataStore) -> Mapping[str, Any]:
        freeze = await read_freeze(store.named_records)
        report = {"metadata": settings.deployment.url, "was": freeze.state.value if freeze is not None else None}
        report["target"] = freeze.target if freeze is not None and freeze.forbids_writes else None
        if freeze is None or not freeze.forbids_writes:
            return {**report, "thawed": False}
        if dry_run:
            return {**report, "would_thaw": True}
        if not yes:
            await asyncio.to_thread(confirm, _warning(freeze))
        lifted = replace(freeze, state=FreezeState.LIFTED, wall_ms=int(time.time() * 1000))
        if await replace_freeze(store.named_records, freeze, lifted, Random()) is None:
            raise OperationError(
                f"{settings.command}: a migration of {settings.deployment.url} runs, and changed the freeze meanwhile; "
                "end it with Ctrl-C, which thaws, or give the command again",
                ExitCode.VERSION_CONFLICT,
            )
        return {**report, "thawed": True}

    output.record(with_store(settings.deployment, thaw))


def _warning(freeze: Freeze) -> str:
    if freeze.state is FreezeState.MOVED:
        return (
            f"a migration moved this store to {freeze.target}; hubs that use this store again do not see what was "
            "written there since"
        )
    return f"a migration to {freeze.target} has frozen this store, and fails if it still runs"
