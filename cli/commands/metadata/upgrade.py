"""The command `hedwig-admin metadata upgrade`: bring a store of an older layout up to the present one."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.errors import CommandError, counted, exit_code_of, explain
from hedwig.cli.output.formats import Output
from hedwig.cli.output.progress import load_progress
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import HedwigError
from hedwig.metadata.migration.upgrades import StoreUpgrade, UpgradeStep, open_upgrade

__all__ = ["upgrade_store"]

_COLUMNS: Final = ("step", "records", "result", "does")


@click.command("upgrade", cls=AdminCommand, example="hedwig-admin metadata upgrade --dry-run")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def upgrade_store(settings: Settings, dry_run: bool, yes: bool) -> None:
    """Bring a store of an older layout up to the present one, step by step; nothing, if it is there already.

    Stores that this software laid out have one layout so far, so there is nothing to do. What is older is what the
    original's releases 4.0 and 4.1 kept in ZooKeeper: without a layout record, and with subscriptions of another form.

    The hubs must be stopped; those registered in the store's own place are looked for. Each record is changed only if
    it is still as it was seen. However it is ended, the same command goes on where it was.
    """
    output = settings.writer()
    asyncio.run(_Upgrading(settings, output).run(dry_run=dry_run, yes=yes))


class _Upgrading:
    """One run of the command."""

    def __init__(self, settings: Settings, output: Output) -> None:
        self._settings = settings
        self._output = output

    async def run(self, *, dry_run: bool, yes: bool) -> None:
        """Look, ask, and carry out what is to be done."""
        settings = self._settings
        try:
            async with await open_upgrade(settings.url, settings.store_options()) as upgrade:
                planned = {step: await self._count(upgrade, step) for step in upgrade.steps}
                if not any(planned.values()):
                    self._show(planned, "nothing to do")
                    click.echo(f"{settings.url_to_show} is {_said(upgrade)}: nothing to upgrade", err=True)
                elif dry_run:
                    self._show(planned, "would be done")
                    click.echo(f"{settings.url_to_show} is {_said(upgrade)}; nothing was changed", err=True)
                else:
                    await self._carry_out(upgrade, planned, yes=yes)
        except HedwigError as exc:
            raise CommandError(
                f"{settings.command} failed: {explain(exc, settings.url_to_show)}", exit_code_of(exc)
            ) from exc

    async def _count(self, upgrade: StoreUpgrade, step: UpgradeStep) -> int:
        with load_progress(f"looking at {step.name}", None, noun="records") as progress:
            return await upgrade.count(step, partial(progress.advance, read_bytes=0))

    async def _carry_out(self, upgrade: StoreUpgrade, planned: Mapping[UpgradeStep, int], *, yes: bool) -> None:
        settings = self._settings
        if hubs := await upgrade.hubs():
            raise CommandError(
                f"{settings.command}: {counted(len(hubs), 'hub')} registered at {settings.url_to_show}, the first is "
                f"{hubs[0]}; hubs of releases 4.0 and 4.1 misread the present form, so stop them all, for good"
            )
        if not yes:
            work = ", ".join(f"{step.name}: {number:,}" for step, number in planned.items() if number)
            await asyncio.to_thread(
                confirm, f"this brings {settings.url_to_show}, {_said(upgrade)}, up to date ({work}); no way leads back"
            )
        self._output.begin("steps", _COLUMNS, _COLUMNS)
        for step in upgrade.steps:
            with load_progress(f"changing {step.name}", None, noun="records") as progress:
                changed = await upgrade.carry_out(step, partial(progress.advance, read_bytes=0))
            self._output.page([_row(step, changed, "done")])
        self._output.end()
        click.echo(f"{settings.url_to_show} is {_said(upgrade)} now", err=True)

    def _show(self, planned: Mapping[UpgradeStep, int], result: str) -> None:
        rows = [_row(step, number, result if number else "nothing to do") for step, number in planned.items()]
        self._output.begin("steps", _COLUMNS, _COLUMNS)
        self._output.page(rows)
        self._output.end_told()


def _row(step: UpgradeStep, records: int, result: str) -> dict[str, Any]:
    return {"step": step.name, "records": records, "result": result, "does": step.does}


def _said(upgrade: StoreUpgrade) -> str:
    layout = upgrade.layout
    return "without a layout record" if layout is None else f"{layout.kind}, format {layout.major}.{layout.minor}"
