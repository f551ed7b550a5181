"""Completing the addresses of hubs: those of the cluster that are alive, and those that contexts name."""

import click
from click.shell_completion import CompletionItem

from hedwig.cli.arguments.quiet_completion import COMPLETION_TIMEOUT_S, complete_quietly
from hedwig.cli.errors import CommandError
from hedwig.cli.settings.settings import Settings

__all__ = ["complete_hub"]


def complete_hub(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the hubs whose addresses begin like `incomplete`."""
    settings = ctx.find_object(Settings) or Settings()
    names = {item.value for item in complete_quietly(lambda: _live_hubs(settings))} | _saved_hubs(settings)
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


async def _live_hubs(settings: Settings) -> list[str]:
    from hedwig.cli.deployment.cluster_access import ClusterAccess, read_hubs_of

    url = ClusterAccess.of(settings).url(settings)
    return [f"{hub.info.host}:{hub.info.port}" for hub in await read_hubs_of(url, COMPLETION_TIMEOUT_S)]


def _saved_hubs(settings: Settings) -> set[str]:
    try:
        contexts = settings.saved_contexts().contexts.values()
    except CommandError:
        return set()
    return {str(context["hub"]) for context in contexts if "hub" in context}
