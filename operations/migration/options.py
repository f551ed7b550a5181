"""What the user asked a migration for: two stores, and the hubs that use the first."""

from dataclasses import dataclass

from hedwig.errors import ConfigurationError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import Layout, MetadataStore, MetadataUrl, read_layout
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.migration.hubs import MigrationHubs

__all__ = ["MigrationOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """The arguments and options of the command. `deployment` says where the hubs of the source are registered."""

    deployment: Deployment
    source: str
    target: str
    owners: bool
    admins: tuple[str, ...]
    hubs_down: bool
    stops_before_pause: bool
    yes: bool

    @property
    def freezes_hubs(self) -> bool:
        """Whether the migration looks for hubs, and freezes them at the end."""
        return not self.hubs_down and not self.stops_before_pause

    async def layouts(self) -> tuple[Layout, Layout | None]:
        """Return the layouts of source and target; None for a target without a layout.

        Raises: OperationError - there is no source; ConfigurationError - they are the same store; as `read_layout`.
        """
        options = self.deployment.options_to_look()
        source = await read_layout(self.source, options)
        if source is None:
            # Opening it would make an empty SQLite file under a mistyped name.
            raise OperationError(
                f"{self.deployment.command}: there is no metadata at {self.source}; see that --from is right",
                ExitCode.NOT_FOUND,
            )
        target = await read_layout(self.target, options)
        is_named_apart = self.source != self.target and MetadataUrl.parse(self.source).scheme == "zookeeper"
        if not is_named_apart and _name(self.source, source) == _name(self.target, target):
            raise ConfigurationError(f"{self.source} and {self.target} are the same store")
        return source, target

    def name_of_source(self, layout: Layout) -> str:
        """Return a name of the source that is the same wherever the source is opened."""
        return _name(self.source, layout)

    def hubs_of(self, source: MetadataStore) -> MigrationHubs:
        """Return the object that finds and freezes the hubs that use the source."""
        return MigrationHubs(self.deployment, source, self.admins)

    async def find_hubs(self, hubs: MigrationHubs, source: MetadataStore) -> list[str]:
        """Return the addresses of the running hubs that the migration will freeze.

        Raises: OperationError - the user did not say where to look for them, or one of them cannot be frozen.
        """
        if not self.freezes_hubs:
            return []
        names_hubs = self.deployment.cluster or self.admins or source.url.scheme == "sqlite"
        if not names_hubs and await source.standalone_hub() is None:
            raise OperationError(
                f"{self.deployment.command}: which hubs use {self.source}? Give --cluster URL, where they are "
                "registered, or --hub-admin HOST:PORT for each, or --hubs-down if there is none",
                ExitCode.USAGE,
            )
        return await hubs.find()


def _name(url: str, layout: Layout | None) -> str:
    parsed = MetadataUrl.parse(url)
    return f"{parsed.scheme}:{(layout.store_id if layout else '') or parsed.path}"
