"""Results as YAML that reads the same in YAML 1.1 and 1.2."""

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from hedwig.cli.output.formats import Output, Row, field_names

__all__ = ["YamlOutput"]

# libyaml writes ten times as fast, but some builds of PyYAML lack it.
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# PyYAML quotes text that YAML 1.1 would read as another type. These are numbers in YAML 1.2 only.
_NUMBER: Final = re.compile(r"[-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)")

# Text that no reader takes for another type or for punctuation. The longest word with a meaning is `false`.
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/-]{5,}")


class YamlOutput(Output):
    """One document: a mapping, or for a listing `NOUN: [...]` and `next_page_token`, written row by row."""

    def record(self, row: Row) -> None:
        self._check_columns(field_names(row))
        self._write(_text(dict(self._choose(row))))
        self._flush()

    def _begin(self, noun: str, _shown: Sequence[str]) -> None:
        self._noun = noun
        self._has_rows = False

    def page(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        if not self._has_rows:
            self._has_rows = True
            self._write(f"{self._noun}:\n")
        self._write("".join([_item(self._choose(row)) for row in rows]))
        self._flush()

    def end(self, next_page_token: str | None = None) -> None:
        if not self._has_rows:
            self._write(f"{self._noun}: []\n")
        self._write(_text({"next_page_token": next_page_token}))
        self._flush()


def _item(row: Row) -> str:
    """Return a row as an item of a sequence. The usual row, a few plain names, needs no YAML writer."""
    if all(isinstance(value, str) and _PLAIN.fullmatch(value) for value in row.values()):
        return "- " + "  ".join([f"{name}: {value}\n" for name, value in row.items()])
    return _text([dict(row)])


class _Writer(_Dumper):  # type: ignore[misc]
    """Writes what json.dumps writes, under the same names, but never `&anchor` in place of a value."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    # A file name may hold bytes that are no text. They are escaped, as everywhere.
    text = str(text).encode(errors="surrogateescape").decode(errors="backslashreplace")
    style = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_number(dumper: Any, number: int) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:int", str(int(number)))


_Writer.add_representer(str, _represent_text)
_Writer.add_multi_representer(str, _represent_text)
_Writer.add_multi_representer(int, _represent_number)


def _text(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1 << 30
    )
    return text
