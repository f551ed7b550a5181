"""The command `hedwig-bench report`."""

from pathlib import Path

import click

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.files import write_report
from hedwig.benchmarks.runs.results import Result

__all__ = ["report"]


@click.command(epilog="Example: hedwig-bench report benchmarks/results/listing-sqlite.json.xz -o report")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR|FILE.html",
    type=click.Path(path_type=Path),
    help="Where the page goes; pictures are put beside it.",
)
def report(results: tuple[Path, ...], output: Path) -> None:
    """Make a report of results: a page in HTML that needs no other file, and its pictures.

    RESULT is a result file, or the directory of a run. Results of one program with the same terms are merged, such as
    one result for each backend. The same results make the same bytes.
    """
    for path in write_report([(path.name, _measured(path)) for path in results], output):
        click.echo(path)


def _measured(path: Path) -> Result:
    """Return the result at `path`. Raises BenchmarkError - there is none, or nothing was measured."""
    result = Result.read(path)
    if not result.measurements:
        raise BenchmarkError(f"{path} has no measurements: the run ended before it measured anything")
    return result
