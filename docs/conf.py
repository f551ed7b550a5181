"""The documentation as a site: all Markdown documents of the checkout, and the API from its docstrings.

    .venv/bin/sphinx-build -b html -c docs . /tmp/hedwig-site

The sources are where they are on a forge, so their links hold in both; a link that leads nowhere is a warning.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import hedwig

project = "Hedwig"
author = "the Hedwig developers"
release = version = hedwig.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**.md", "benchmarks/results/README.md"]
exclude_patterns = [".*"]
root_doc = "docs/README"
nitpicky = False
default_role = "py:obj"

myst_heading_anchors = 4

autodoc_default_options = {"members": True, "imported-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Hedwig {release}"
html_extra_path = ["site"]
html_copy_source = False

_KINDS: Final = {
    "Tutorial": ("/docs/tutorial",),
    "How to": ("/docs/how-to/*",),
    "Reference": ("/docs/reference/*", "/benchmarks/results/README"),
    "Explanation": ("/ARCHITECTURE", "/docs/explanation/*"),
    "The project": ("/README", "/CONTRIBUTING", "/SECURITY", "/CODE_OF_CONDUCT", "/CHANGELOG"),
}
"""The parts of the menu, and their pages."""
_LIST: Final = re.compile(r"^(Args|Raises): (.+)$", re.DOTALL)
_ENTRY: Final = re.compile(r"((?:[\w.*]+, )*[\w.*]+)(?: - (.*))?")
"""One of them, or several of which the same holds; of an error only its name may be there."""


def _with_menu(_app: object, document: str, source: list[str]) -> None:
    """Put the menu into the first page, where a forge would show it as code."""
    if document == root_doc:
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {kind}\n\n" + "\n".join(pages) + "\n```\n"
            for kind, pages in _KINDS.items()
        )


def _as_rst(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Turn a docstring as we write it into reStructuredText.

    `Args: a - what it is; b, c - what they are.` becomes a list, and so does `Raises:`.
    """
    lines[:] = "\n".join(_blocks("\n".join(lines))).splitlines()


def _blocks(text: str) -> Iterator[str]:
    text = re.sub(r"(?m)^Example:$", "Example::\n", text.strip("\n"))
    for block in re.split(r"\n\s*\n|\n(?=(?:Args|Raises): )|\s+(?=Returns: )", text):
        listed = _LIST.match(block)
        entries = _entries(re.sub(r"\s+", " ", listed[2])) if listed else []
        if listed and entries:
            field = "param" if listed[1] == "Args" else "raises"
            yield "".join(f":{field} {name}: {said}\n" for names, said in entries for name in names.split(", "))
        else:
            yield re.sub(r"^Returns: ", ":returns: ", block)
        yield ""


def _entries(text: str) -> list[tuple[str, str]]:
    """Return the names with their descriptions; nothing if the text is no such list."""
    entries: list[tuple[str, str]] = []
    for item in text.rstrip(".").split("; "):
        if match := _ENTRY.fullmatch(item):
            entries.append((match[1], f"{match[2]}." if match[2] else ""))
        elif entries:  # A semicolon in a sentence.
            names, said = entries[-1]
            entries[-1] = (names, f"{said.rstrip('.')}; {item}.")
        else:
            return []
    return entries


def setup(app: Any) -> None:
    """Add the two to a build."""
    app.connect("source-read", _with_menu)
    app.connect("autodoc-process-docstring", _as_rst, priority=400)  # Before napoleon, which reads the rest.
