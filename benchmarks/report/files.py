"""The files of a report: its page and its pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.page import Page, html
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Result

__all__ = ["write_report"]

_NAME: Final = "report"


def write_report(results: Sequence[tuple[str, Result]], output: Path) -> list[Path]:
    """Write the report of named results; return the written files, the page first.

    Args: output - a directory, or a page, whose name ends with .html.
    Raises: BenchmarkError - `output` cannot be a page, or it cannot be written; MissingExtraError.
    """
    try:
        return _write(report_page(results), output)
    except OSError as exc:
        raise BenchmarkError(f"cannot write the report to {output}: {exc}") from exc


def _write(page: Page, output: Path) -> list[Path]:
    if output.suffix == ".html":
        directory, stem, pictures = output.parent, output.stem, f"{output.stem}-"
    elif output.is_file():
        raise BenchmarkError(f"{output} is a file, and no page: give a directory, or a name that ends with .html")
    else:
        directory, stem, pictures = output, _NAME, ""
    files = {directory / f"{stem}.html": html(page).encode()}
    files |= {directory / f"{pictures}{chart.name}.png": chart.png for chart in page.charts()}
    directory.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        path.write_bytes(content)
    return list(files)
