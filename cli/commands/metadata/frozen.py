"""Reports that a store is frozen, next to what a command shows of it."""

import click

from hedwig.metadata import MetadataStore
from hedwig.metadata.freezing import read_freeze
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import describe_freeze

__all__ = ["say_if_frozen"]


async def say_if_frozen(deployment: Deployment, store: MetadataStore) -> None:
    """Report on standard error if a store is frozen or was moved. Raises as `read_freeze`."""
    freeze = await read_freeze(store.named_records)
    if freeze is not None and freeze.forbids_writes:
        click.echo(describe_freeze(deployment, freeze), err=True)
