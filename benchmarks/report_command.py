"""The command `hedwig-bench report`."""

from pathlib import Path
from typing import Final

import click

from benchmarks.errors import BenchmarkError
from benchmarks.report_page import Page, html, markdown_page
from benchmarks.report_parts import report_page
from benchmarks.results import Result

__all__ = ["report"]

_OF_A_RUN: Final = "result.json"
_NAME: Final = "report"


@click.command(epilog="Example: hedwig-bench report benchmarks/results/listing-sqlite.json -o report")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR|FILE.html",
    type=click.Path(path_type=Path),
    help="Where the page goes; pictures and the Markdown are put beside it.",
)
def report(results: tuple[Path, ...], output: Path) -> None:
    """Make a report of results: a page in HTML that needs no other file, the same in Markdown, and its pictures.

    RESULT is a result file, or the directory of a run. Results on metadata that hold for the same terms, such as one
    for each backend, become one. The same results make the same bytes.
    """
    try:
        found = [_read(path) for path in results]
        page = report_page(found)
        for path in _write(page, output):
            click.echo(path)
    except BenchmarkError as exc:
        raise click.ClickException(str(exc)) from exc
    except OSError as exc:
        raise click.ClickException(f"cannot write the report to {output}: {exc}") from exc


def _read(path: Path) -> tuple[str, Result]:
    """Return a result with its name. Raises BenchmarkError - there is none, or nothing was measured."""
    if path.is_dir():
        name, file = path.name, path / _OF_A_RUN
    else:
        name, file = path.name, path
    result = Result.read(file)
    if not result.measurements:
        raise BenchmarkError(f"{file} has no measurements: the run was ended before there were any")
    return name, result


def _write(page: Page, output: Path) -> list[Path]:
    """Write everything, and return what was written, the page first."""
    if output.suffix == ".html":
        directory, stem, pictures = output.parent, output.stem, f"{output.stem}-"
    elif output.is_file():
        raise BenchmarkError(f"{output} is a file, and no page: give a directory, or a name that ends with .html")
    else:
        directory, stem, pictures = output, _NAME, ""
    files = {
        directory / f"{stem}.html": html(page).encode(),
        directory / f"{stem}.md": markdown_page(page, pictures).encode(),
    }
    files |= {directory / f"{pictures}{chart.name}.png": chart.png for chart in page.charts()}
    directory.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        path.write_bytes(content)
    return list(files)
