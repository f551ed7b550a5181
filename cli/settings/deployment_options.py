"""The options that say which hubs and ledgers a command means. The command gets them as one value."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.settings.setting_options import (
    admin_setting_options,
    cluster_setting_options,
    ledger_setting_options,
    owner_setting_options,
)
from hedwig.cli.settings.settings import current_settings
from hedwig.operations.deployment.deployment import Deployment

__all__ = ["deployment_options", "offline_option"]


def deployment_options(
    *, cluster: bool = True, admin: str | None = None, ledgers: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a command about hubs. The command gets a Deployment as `deployment`.

    It has those of access to admin endpoints, too.

    Args:
        cluster: add --cluster.
        admin: add --admin, a way to the admin endpoint of the hub that this text names.
        ledgers: add --data and --bookkeeper.
    """
    options = [
        *(cluster_setting_options() if cluster else ()),
        *(owner_setting_options(admin) if admin is not None else ()),
        *(ledger_setting_options() if ledgers else ()),
        *admin_setting_options(),
    ]

    def gather(_: Mapping[str, Any]) -> Deployment:
        return current_settings().deployment_with(admin=admin is not None, ledgers=ledgers)

    return option_group("deployment", options, (), gather)


def offline_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --offline, which changes the store without asking the owner."""
    return click.option(
        "--offline",
        is_flag=True,
        help="Change the store without asking the topic's owner; only if that hub is down.",
    )
