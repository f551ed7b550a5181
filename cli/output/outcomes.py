"""Reports the outcomes of a command that creates several records."""

from collections.abc import Sequence
from typing import Any

import click

from hedwig.cli.output.fields import version_text
from hedwig.cli.output.formats import Output
from hedwig.errors import BadVersionError, OperationError, exit_code_of
from hedwig.exit_codes import ExitCode
from hedwig.metadata import Outcome, RecordKey
from hedwig.names import name_fields
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.errors import explain

__all__ = ["report_outcomes"]


def report_outcomes(
    deployment: Deployment,
    output: Output,
    noun: str,
    keys: Sequence[RecordKey],
    outcomes: Sequence[Outcome[Any]],
    *,
    if_not_exists: bool,
) -> None:
    """Write a row with the version of each record that exists now.

    Raises: the error of the only record; OperationError - some of several failed, after one line on standard error for
        each; its code is theirs if they have one in common.
    """
    rows: list[dict[str, Any]] = []
    errors = []
    for key, outcome in zip(keys, outcomes, strict=True):
        names = name_fields(key.topic, key.subscriber)
        match outcome.error:
            case None:
                rows.append(names | {"result": "created", "version": version_text(outcome.version)})
            case BadVersionError(current_version=version) if if_not_exists:
                rows.append(names | {"result": "existed", "version": version_text(version)})
            case error:
                errors.append(error)
    if len(keys) == 1 and errors:
        raise errors[0]
    known = (
        ("topic", "subscriber", "result", "version")
        if keys[0].subscriber is not None
        else ("topic", "result", "version")
    )
    output.listing(noun, rows, known)
    if errors:
        for error in errors:
            click.echo(f"error: {explain(error, deployment.url_to_show)}", err=True)
        codes = {exit_code_of(error) for error in errors}
        raise OperationError(
            f"{deployment.command}: {len(errors)} of {len(keys)} failed, each is named above",
            codes.pop() if len(codes) == 1 else ExitCode.FAILED,
        )
