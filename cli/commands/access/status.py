"""The command `hedwig-admin access status`: which rules the hubs know, and what they refuse."""

from dataclasses import replace
from typing import Any, Final

import click

from hedwig.cli.commands.hub.asking import write_answers
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.reached_hub import hubs_of_cluster, reach_hub
from hedwig.operations.deployment.store import with_store

__all__ = ["status"]

_COLUMNS: Final = (
    "hub",
    "mode",
    "version",
    "newest",
    "age_s",
    "rules",
    "users",
    "refused",
    "logins",
    "failed_logins",
    "asks_operators",
)
_SHOWN: Final = ("hub", "mode", "version", "newest", "age_s", "refused", "failed_logins")


@click.command("status", cls=AdminCommand, example="hedwig-admin access status")
@deployment_options(admin="the standalone hub")
@pass_settings
def status(settings: Settings, /, deployment: Deployment) -> None:
    """Show what the hubs of a cluster, or the standalone hub, know of the rules, and how often they refused something.

    `version` is that of the rules and users at the hub, `newest` that in the store, and `age_s` how long ago the hub
    has asked the store. A hub that does not answer is a row without values, and makes the command fail in the end.
    """
    output = settings.writer()

    async def read(store: MetadataStore) -> int:
        return await RuleRecords(store.named_records).changes()

    newest = with_store(deployment, read)

    def row(hub: str, answer: dict[str, Any] | None) -> dict[str, Any]:
        known = answer or {}
        return {"hub": hub, **{name: known.get(name) for name in _COLUMNS[1:]}, "newest": newest}

    live = hubs_of_cluster(deployment)
    if live is None:
        reached = reach_hub(deployment, None)
        answer = reached.endpoint.get("/access")
        output.begin("hubs", _COLUMNS, _SHOWN)
        output.page([row(reached.name, answer)])
        output.end()
        return
    output.begin("hubs", _COLUMNS, _SHOWN)
    write_answers(replace(deployment, admin=None), output, live, "/access", row)
