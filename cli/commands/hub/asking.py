"""Asks each of some hubs the same, and writes a row for each."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hedwig.cli.output.formats import Output, Row
from hedwig.errors import OperationError
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.reached_hub import reach_live_hub

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = ["write_answers"]


def write_answers(
    deployment: Deployment, output: Output, hubs: "Sequence[LiveHub]", path: str, row: Callable[[str, Any], Row]
) -> None:
    """Write the row of each hub, made of its name and its answer at `path`, which is None if it does not answer.

    Raises: OperationError - one did not answer; after all were asked.
    """
    errors: list[OperationError] = []
    for each in hubs:
        answer = None
        try:
            answer = reach_live_hub(deployment, each).endpoint.get(path)
        except OperationError as exc:
            errors.append(exc)
        output.page([row(f"{each.info.host}:{each.info.port}", answer)])
    output.end()
    if len(errors) == 1:
        raise errors[0]
    if errors:
        for error in errors:
            click.echo(f"error: {error}", err=True)
        raise OperationError(
            f"{deployment.command}: {len(errors)} of {len(hubs)} hubs did not answer, each is named above",
            errors[0].code,
        )
