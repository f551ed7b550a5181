"""Prove that documents name only files, tests and imports that exist."""

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.checkout import CHECKOUT

_TOP: Final = "benchmarks|cli|docker|docs|examples|hedwig|hub|metadata|operations|pipeline|pyspark_hedwig|scripts|tests"
_PATH: Final = re.compile(rf"(?<![\w/.:$~{{-])((?:{_TOP})/[\w./*-]*[\w*/])(?![\w.*/-]*` of revision)")
"""A file or a folder of the checkout. One of an earlier revision is named with it."""
_NAME: Final = re.compile(r"(?<![\w./-])(hedwig(?:\.[A-Za-z_]\w*)+)")
_STANDS_FOR_ANY: Final = re.compile(r"/[A-Z]+$")
_TESTS: Final = re.compile(r"\./test ([^`\n]*)")
_BACKENDS: Final = frozenset({"sqlite", "zookeeper", "hbase"})
"""The backends of many tests. They are in the ids of these tests, not in their text."""
_OTHERS: Final = frozenset(
    {
        # Files of the user's data and configuration, which are named like the program.
        "hedwig/metadata.db",
        "hedwig/admin.toml",
        "hedwig/console-history",
        "hedwig/dev",
        # Files that commands create there.
        "examples/data/topics.tsv.gz.topic-create-result.ndjson",
        "hedwig.zip",
        # The group of entry points.
        "hedwig.filters",
        # A unit.
        "operations/s",
    }
)


def _documents() -> Iterator[tuple[str, str]]:
    """Yield the documents by name, with their text. The changelog is left out: it names removed files."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if name != "CHANGELOG.md" and not name.startswith("benchmarks/results/"):
            yield name, (CHECKOUT / name).read_text(encoding="utf-8")


def test_every_file_that_a_document_names_is_there() -> None:
    missing = [
        f"{document}: {path}"
        for document, text in _documents()
        for path in _PATH.findall(text)
        if path not in _OTHERS and not _STANDS_FOR_ANY.search(path) and not _is_there(Path(document).parent, path)
    ]
    assert not missing


def _is_there(beside: Path, path: str) -> bool:
    return any(True for _ in CHECKOUT.glob(path.rstrip("/"))) or (CHECKOUT / beside / path).exists()


def test_every_name_of_a_module_that_a_document_names_can_be_imported() -> None:
    missing = [
        f"{document}: {name}"
        for document, text in _documents()
        for name in _NAME.findall(text)
        if name not in _OTHERS and not _can_be_had(name)
    ]
    assert not missing


def _can_be_had(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            named: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            if not hasattr(named, attribute):
                return False
            named = getattr(named, attribute)
        return True
    return False


def test_every_choice_of_tests_that_a_document_names_chooses_some() -> None:
    empty = []
    for document, text in _documents():
        for line in _TESTS.findall(text):
            words = shlex.split(line.partition("#")[0])
            files = [Path(word) for word in words if word.startswith("tests/")]
            chosen = words[words.index("-k") + 1] if "-k" in words else ""
            names = "".join(_names_of_tests(file) for file in files or [Path("tests")])
            names += names.replace(" ", "_")  # Ids of tests are made from such values.
            wanted = [word for word in re.findall(r"\w+", chosen) if word not in {"and", "or", "not", *_BACKENDS}]
            empty += [f"{document}: {line}: {word}" for word in wanted if word not in names]
    assert not empty


def _names_of_tests(path: Path) -> str:
    """Return the names of files and tests below a path, as `-k` matches them, and the values of their parameters."""
    file, _, test = str(path).partition("::")
    target = CHECKOUT / file
    modules = sorted(target.rglob("test_*.py")) if target.is_dir() else [target]
    modules += [above / "conftest.py" for above in target.parents if (above / "conftest.py").is_file()]
    return "".join(f"{module}\n{module.read_text(encoding='utf-8')}\n" for module in modules) + test
