"""A document that holds tables of results. Between its two marks stands only what this program wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Result

__all__ = ["parts", "section", "write_into"]

_BEGIN: Final = "<!-- results: begin -->\n"
_END: Final = "<!-- results: end -->\n"


def section(results: Sequence[tuple[str, Result]]) -> str:
    """Return the part of a document that shows results, each with the name of its file."""
    return "".join(f"\n## {name}\n\n{markdown(result)}" for name, result in results) + "\n"


def write_into(document: Path, results: Sequence[tuple[str, Result]]) -> None:
    """Put results into a document. Raises BenchmarkError - the document has no marks."""
    before, shown, after = parts(document)
    if shown != (wanted := section(results)):
        document.write_text(before + wanted + after)


def parts(document: Path) -> tuple[str, str, str]:
    """Return the text before the results, the results, and the text after them.

    Raises: BenchmarkError - the document has no marks.
    """
    text = document.read_text()
    before, begin, rest = text.partition(_BEGIN)
    shown, end, after = rest.partition(_END)
    if not begin or not end:
        raise BenchmarkError(f"{document} has no marks for results: add the lines {_BEGIN.strip()} and {_END.strip()}")
    return before + begin, shown, end + after
