"""The options of a hub as a TOML file: the example with every default, and the options in force with their origins."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.options.configuration import DEFAULT, Configuration
from hedwig.hub.options.field import explain
from hedwig.hub.options.keys import FILTERS, LISTENERS, OptionKey, find_key, keys, of_listeners, variable
from hedwig.hub.options.options import HubOptions
from hedwig.quantities import show_size

__all__ = ["effective", "example"]

_WIDTH: Final = 100
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

_HEAD: Final = f"""\
# The options of a hub: hedwig-hub --config hub.toml
#
# Each option is here with its default. Copy this file, take the # away from what you change, and check it with
# hedwig-hub --config hub.toml --check-config. An option can also be given in the environment ({variable("port")}=4080,
# {variable("ledgers.read_threads")}=8) and on the command line (--set port=4080, --set ledgers.read_threads=8).
# A flag counts first, then the environment, then this file.
#
# Sizes are bytes, or texts like "64 MiB" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB). Times are seconds, or texts like
# "10 min" (ms, s, min, h, d). A time of 0 turns a limit off, where 0 is admitted.
"""
_FILTERS_EXAMPLE: Final = (
    'short-messages = "my_filters:ShortMessages"',
    '"com.example.ShortMessageFilter" = "my_filters:ShortMessages"  # as Java clients name it',
)
_UNSET: Final = {"ledgers.reserve_bytes": show_size(LocalLedgerOptions().reserve)}
"""The text to show for a default that depends on other options."""


def example() -> str:
    """Return the commented example file."""
    lines = [_HEAD]
    for table, options in _by_table(keys().values()):
        if table:
            lines += [f"\n[{table}]"]
        lines += _with_defaults(options)
    lines += ["", "", *_comment(explain(HubOptions)[LISTENERS]), f"# [{LISTENERS}.java]"]
    lines += _with_defaults(of_listeners("java").values())
    lines += ["", "", f"[{FILTERS}]", "", *_comment(explain(HubOptions)[FILTERS])]
    lines += [f"# {line}" for line in _FILTERS_EXAMPLE]
    return "\n".join(lines) + "\n"


def _with_defaults(options: Iterable[OptionKey]) -> Iterator[str]:
    for key in options:
        yield from ("", *_comment(key.what))
        shown = key.show(key.default)
        yield f"# {_bare(key)} = {_literal(_UNSET[key.name] if shown is None else shown)}"


def effective(configuration: Configuration) -> str:
    """Return the options in force, each with its origin; a file with this text gives the same options."""
    values = configuration.values()
    lines: list[str] = []
    for table, options in _by_table(map(find_key, values)):
        if table:
            lines += ["", f"[{table}]"]
        for key in options:
            shown = key.show(values[key.name])
            origin = configuration.origin(key.name)
            lines.append(
                f"# {_bare(key)}: {key.what.rpartition('not given: ')[2]}  # {DEFAULT}"
                if shown is None
                else f"{_bare(key)} = {_literal(shown)}  # {origin}"
            )
    return "\n".join(lines) + "\n"


def _by_table(options: Iterable[OptionKey]) -> Iterator[tuple[str, list[OptionKey]]]:
    """Yield the options of each table, those without a table first, under ""."""
    tables: dict[str, list[OptionKey]] = {"": []}
    for key in options:
        tables.setdefault(_table_of(key), []).append(key)
    yield from tables.items()


def _table_of(key: OptionKey) -> str:
    if key.name.startswith(f"{LISTENERS}."):
        return key.name.rpartition(".")[0]
    return key.name.partition(".")[0] if "." in key.name else ""


def _bare(key: OptionKey) -> str:
    name = key.name.removeprefix(f"{_table_of(key)}.")
    return name if _BARE.fullmatch(name) else _literal(name)


def _literal(value: Any) -> str:
    # JSON's literals are also TOML's, except for the one control character that JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


if __name__ == "__main__":
    print(example(), end="")
