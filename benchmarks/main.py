"""The command hedwig-bench."""

import json
from pathlib import Path
from typing import Any

import click

from hedwig.benchmarks.command import command_of
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.command import report
from hedwig.benchmarks.report.compare.command import compare_command
from hedwig.benchmarks.report.document import write_into
from hedwig.benchmarks.report.tables import show_result
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.registry import suites
from hedwig.errors import MissingExtraError
from hedwig.exit_codes import ExitCode

__all__ = ["main"]


class _MissingExtra(click.ClickException):
    exit_code = ExitCode.USAGE


class _Program(click.Group):
    """The root of the commands. The exit code is 2 if a command needs an extra that is not installed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MissingExtraError as exc:
            raise _MissingExtra(str(exc)) from exc
        except click.ClickException as exc:
            if isinstance(exc.__cause__, MissingExtraError):
                raise _MissingExtra(exc.message) from exc
            raise


@click.group(cls=_Program)
@click.version_option(package_name="hedwig-pubsub", prog_name="hedwig-bench")
def main() -> None:
    """Measure hubs and metadata backends, and show what was measured."""


for _suite in suites():
    main.add_command(command_of(_suite))
main.add_command(compare_command)
main.add_command(report)


@main.command(epilog="Example: hedwig-bench show benchmarks/results/*.json.xz")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="As JSON, one result after the other in a list.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As Markdown, for a document.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Write the Markdown into this document, and replace the text between its marks.",
)
def show(results: tuple[Path, ...], as_json: bool, as_markdown: bool, into: Path | None) -> None:
    """Print results again."""
    try:
        loaded = [Result.read(path) for path in results]
        if into is not None:
            write_into(into, [(path.name, result) for path, result in zip(results, loaded, strict=True)])
            return
        if as_json:
            click.echo(json.dumps([result.to_json() for result in loaded], indent=1))
            return
        for result in loaded:
            show_result(result, as_markdown=as_markdown)
    except BenchmarkError as exc:
        raise click.ClickException(str(exc)) from exc
