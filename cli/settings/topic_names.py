"""Completion of topic names: the first ones of the store."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from hedwig.cli.arguments.quiet_completion import COMPLETION_TIMEOUT_S, complete_quietly
from hedwig.cli.settings.settings import Settings
from hedwig.names import parse_name, show_name
from hedwig.operations.deployment.deployment import without_making

__all__ = ["complete_topic"]

_COMPLETIONS_MAX: Final = 50
_CHILDREN_MAX: Final = 100_000
"""Topics are not completed if ZooKeeper has more children in one node than this. Listing them would take too long."""


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the first topics that begin with `incomplete`; none if the store is slow or does not exist."""
    settings = ctx.find_object(Settings) or Settings()
    return complete_quietly(lambda: _first_topics(settings, incomplete))


async def _first_topics(settings: Settings, incomplete: str) -> list[str]:
    # Completion must not load the code of the store before it needs it.
    from hedwig.metadata import StoreOptions, open_metadata

    names: list[str] = []
    options = StoreOptions(
        operation_timeout_s=COMPLETION_TIMEOUT_S,
        page_rows=_COMPLETIONS_MAX,
        children_max=_CHILDREN_MAX,
        stores_file=settings.deployment.stores_file,
        reads_only=True,
    )
    async with await open_metadata(without_making(settings.url_to_show), options) as store:
        async for topic in store.topics(parse_name(incomplete) or None):
            names.append(show_name(topic))
            if len(names) == _COMPLETIONS_MAX:
                break
    return names
