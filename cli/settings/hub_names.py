"""Completion of hub addresses: the living hubs of the cluster, and the hubs that contexts name."""

import click
from click.shell_completion import CompletionItem

from hedwig.cli.arguments.quiet_completion import COMPLETION_TIMEOUT_S, complete_quietly
from hedwig.cli.settings.settings import Settings
from hedwig.errors import OperationError

__all__ = ["complete_hub"]


def complete_hub(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the hubs whose addresses begin with `incomplete`."""
    settings = ctx.find_object(Settings) or Settings()
    names = {item.value for item in complete_quietly(lambda: _live_hubs(settings))} | _saved_hubs(settings)
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


async def _live_hubs(settings: Settings) -> list[str]:
    # Completion must not load the ZooKeeper client before it needs it.
    from hedwig.operations.deployment.cluster import read_hubs_of

    deployment = settings.deployment
    hubs = await read_hubs_of(deployment.cluster_url, COMPLETION_TIMEOUT_S, deployment.stores_file)
    return [f"{hub.info.host}:{hub.info.port}" for hub in hubs]


def _saved_hubs(settings: Settings) -> set[str]:
    try:
        contexts = settings.saved_contexts().contexts.values()
    except OperationError:
        return set()
    return {str(context["hub"]) for context in contexts if "hub" in context}
