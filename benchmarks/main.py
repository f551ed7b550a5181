"""The command hedwig-bench."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.command import command_of
from hedwig.benchmarks.report.command import report
from hedwig.benchmarks.report.compare.command import compare_command
from hedwig.benchmarks.report.document import write_into
from hedwig.benchmarks.report.tables import show_result
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.registry import suites
from hedwig.command_line import Program
from hedwig.errors import HedwigError, MissingExtraError
from hedwig.exit_codes import ExitCode

__all__ = ["BenchProgram", "main"]

PROGRAM_NAME: Final = "hedwig-bench"


class BenchProgram(Program):
    """The root of the commands."""

    def line_about(self, error: Exception, obj: Any) -> tuple[str, int]:
        del obj
        if not isinstance(error, HedwigError):
            raise error  # A defect of ours keeps its traceback.
        return str(error), ExitCode.USAGE if isinstance(error, MissingExtraError) else ExitCode.FAILED

    def is_debugged(self, obj: Any) -> bool:
        del obj
        return False

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> Any:
            return super(BenchProgram, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        self.check_streams()
        sys.exit(self.run(run, None, PROGRAM_NAME))


@click.group(cls=BenchProgram)
@click.version_option(package_name="hedwig-pubsub", prog_name=PROGRAM_NAME)
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
    loaded = [Result.read(path) for path in results]
    if into is not None:
        write_into(into, [(path.name, result) for path, result in zip(results, loaded, strict=True)])
    elif as_json:
        click.echo(json.dumps([result.to_json() for result in loaded], indent=1))
    else:
        for result in loaded:
            show_result(result, as_markdown=as_markdown)
