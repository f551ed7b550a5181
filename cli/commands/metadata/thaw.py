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
@click.option("--dry-run", is_flag=True, help="Say how the store is, and change nothing.")
@pass_settings
def thaw_store(settings: Settings, yes: bool, dry_run: bool) -> None:
    """Let hubs write to a store again that a migration froze, or moved elsewhere.

    Hubs that run on it go on within a second or two. A migration that is at work with it fails, and can be given again.
    What hubs have written to the target of a finished migration does not come back.
    """
    output = settings.writer()

    async def thaw(store: MetadataStore) -> Mapping[str, Any]:
        found = await read_freeze(store.named_records)
        report = {"metadata": settings.deployment.url, "was": found.state.value if found is not None else None}
        report["target"] = found.target if found is not None and found.forbids_writes else None
        if found is None or not found.forbids_writes:
            return {**report, "thawed": False}
        if dry_run:
            return {**report, "would_thaw": True}
        if not yes:
            await asyncio.to_thread(confirm, _warning(found))
        lifted = replace(found, state=FreezeState.LIFTED, wall_ms=int(time.time() * 1000))
        if await replace_freeze(store.named_records, found, lifted, Random()) is None:
            raise OperationError(
                f"{settings.command}: a migration is at work with {settings.deployment.url}, and changed that "
                "meanwhile; end it with Ctrl-C, which thaws, or give the command again",
                ExitCode.VERSION_CONFLICT,
            )
        return {**report, "thawed": True}

    output.record(with_store(settings.deployment, thaw))


def _warning(found: Freeze) -> str:
    if found.state is FreezeState.MOVED:
        return (
            f"what this store held was moved to {found.target}; hubs that use it again know nothing of what was "
            "written there since"
        )
    return f"a migration to {found.target} has frozen this store, and fails if it is still at work"
