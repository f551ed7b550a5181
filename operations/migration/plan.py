"""What a migration would do, and whether it can, as far as that can be known without writing anything."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from hedwig.clock import SystemClock
from hedwig.errors import HedwigError, LayoutMissingError, OperationError, exit_code_of
from hedwig.exit_codes import ExitCode
from hedwig.metadata import Layout, MetadataStore, MetadataUrl, open_metadata
from hedwig.metadata.contract.changes import ChangesUnsupportedError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP
from hedwig.metadata.freezing import read_freeze
from hedwig.metadata.migration.run import Migration, MigrationError
from hedwig.operations.migration.options import MigrationOptions
from hedwig.operations.progress import working

__all__ = ["MigrationPlan"]


@dataclass(slots=True)
class MigrationPlan:
    """Facts about a migration. `obstacles` has what keeps it from beginning, or from finishing."""

    options: MigrationOptions
    facts: dict[str, Any] = field(default_factory=dict)
    obstacles: list[str] = field(default_factory=list)
    _code: ExitCode = ExitCode.FAILED

    @classmethod
    def make(cls, options: MigrationOptions) -> Self:
        """Look at the stores and hubs. Raises: OperationError, HedwigError - a store cannot be looked at at all."""
        plan = cls(options)
        asyncio.run(plan._look())
        return plan

    def check(self) -> None:
        """Raise OperationError if something prevents the migration."""
        if self.obstacles:
            command = self.options.deployment.command
            raise OperationError(f"{command} cannot be done yet: {'; '.join(self.obstacles)}", self._code)

    async def _look(self) -> None:
        options = self.options
        layout, target_layout = await options.layouts()
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(
                await open_metadata(options.source, options.deployment.options_to_look())
            )
            async with working("counting the records of the source"):
                counts = await source.count()
            kinds = [kind for kind in KINDS if options.owners or kind is not OWNERSHIP]
            freeze = await read_freeze(source.named_records)
            self.facts |= {
                "from": options.source,
                "to": options.target,
                "records": {kind.name: counts[kind.name] for kind in kinds},
                "source_state": "open" if freeze is None or not freeze.forbids_writes else freeze.state.value,
                **await self._look_at_target(source, layout, target_layout),
                "hubs": await self._look_for_hubs(source),
                "compares_in_pause": await self._compares(source),
                "ready": not self.obstacles,
                "dry_run": True,
            }

    async def _compares(self, source: MetadataStore) -> str | None:
        """Say what the pause compares, which decides how long it is; None without a pause."""
        if self.options.stops_before_pause:
            return None
        changes = source.changes()
        if changes is not None and source.url.scheme == "zookeeper":
            # Only the server knows whether it can report changes. Asking ZooKeeper writes nothing; others write.
            try:
                await changes.begin()
                await changes.end()
            except ChangesUnsupportedError:
                changes = None
        return "everything" if changes is None else "what changed last"

    async def _look_at_target(
        self, source: MetadataStore, layout: Layout, target_layout: Layout | None
    ) -> Mapping[str, Any]:
        options = self.options
        nothing = {"target_state": "absent", "resumed": False, "copied": 0}
        url = MetadataUrl.parse(options.target)
        if target_layout is None and url.scheme == "sqlite" and url.parameters.get("create") != "false":
            return nothing  # It is made when it is opened, which a dry run must not do.
        try:
            target = await open_metadata(options.target, options.deployment.options_to_look())
        except LayoutMissingError as exc:
            self._note(exc)
            return nothing
        async with target:
            migration = Migration(
                source, target, options.name_of_source(layout), owners=options.owners, clock=SystemClock()
            )
            try:
                await migration.look()
            except MigrationError as exc:
                self._note(OperationError(f"{options.target} cannot be used: {exc}"))
                return {**nothing, "target_state": "in use"}
            state = "half filled" if migration.is_resumed else "empty"
            return {"target_state": state, "resumed": migration.is_resumed, "copied": migration.state.copied}

    async def _look_for_hubs(self, source: MetadataStore) -> list[str]:
        try:
            return await self.options.find_hubs(self.options.hubs_of(source), source)
        except OperationError as exc:
            self._note(exc)
            return []

    def _note(self, obstacle: HedwigError) -> None:
        if not self.obstacles:
            self._code = exit_code_of(obstacle)
        self.obstacles.append(str(obstacle).removeprefix(f"{self.options.deployment.command}: "))
