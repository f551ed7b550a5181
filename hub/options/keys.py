"""The keys of the options of a hub, and how the value of each is read.

A key is the name of a field of HubOptions. For a field in the record of a table, it is both names, such as
`ledgers.read_threads`. It may also be `filters.` with any name of a message filter, or the option of a named listener,
such as `listeners.java.port`.
"""

import difflib
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.field import explain
from hedwig.hub.options.listener_options import ListenerOptions
from hedwig.hub.options.options import HubOptions
from hedwig.quantities import duration_s, show_duration, show_size, size_bytes

__all__ = [
    "FILTERS",
    "LISTENERS",
    "TABLES",
    "OptionKey",
    "find_key",
    "find_listener_key",
    "keys",
    "nearest",
    "of_listeners",
    "variable",
]

FILTERS: Final = "filters"
LISTENERS: Final = "listeners"
TABLES: Final[Mapping[str, Callable[[], Any]]] = {
    "ledgers": LocalLedgerOptions,
    "cluster": ClusterOptions,
    "bookkeeper": BookieOptions,
    "access": AccessOptions,
}
"""The tables of options, and the record of each."""
_PREFIX: Final = "HEDWIG_HUB_"
_TRUTHS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class OptionKey:
    """One option: its key, its default, what it is for, and how texts and TOML values are converted to its value.

    `from_text` and `from_toml` raise ValueError, whose text says what was expected.
    """

    name: str
    default: Any
    what: str
    from_text: Callable[[str], Any]
    from_toml: Callable[[Any], Any]
    show: Callable[[Any], Any]
    """Returns the value in the form that people write: text, number, true or false, or list."""


def variable(key: str) -> str:
    """Return the environment variable that gives `key`."""
    return _PREFIX + key.upper().replace(".", "_")


@functools.cache
def keys() -> Mapping[str, OptionKey]:
    """Return all keys with a fixed name, in the order of the options; keys of filters and listeners have none."""
    option_keys = _keys_of("", HubOptions(), explain(HubOptions))
    for table, record in TABLES.items():
        option_keys += _keys_of(f"{table}.", record(), _LEDGERS if record is LocalLedgerOptions else explain(record))
    return {key.name: key for key in option_keys}


def _keys_of(prefix: str, defaults: Any, what: Mapping[str, str]) -> list[OptionKey]:
    kinds = get_type_hints(type(defaults))
    names = [each.name for each in fields(defaults) if prefix or each.name not in (FILTERS, LISTENERS, *TABLES)]
    return [_key(prefix + name, kinds[name], getattr(defaults, name), what[name]) for name in names]


def find_key(name: str) -> OptionKey:
    """Return the option `name`. Raises: ValueError - there is none (the text names the nearest one)."""
    key = keys().get(name)
    if key is not None:
        return key
    table, _, rest = name.partition(".")
    if table == FILTERS and rest:
        return OptionKey(name, None, explain(HubOptions)[FILTERS], _text, _toml_text, _text)
    if table == LISTENERS and rest:
        known = of_listeners(rest.rpartition(".")[0] or rest)
        if name not in known:
            raise ValueError(f"{nearest(name, list(known))}; an option of a listener is {LISTENERS}.NAME.OPTION")
        return known[name]
    raise ValueError(nearest(name, [*keys(), FILTERS, LISTENERS, *TABLES]))


def of_listeners(*names: str) -> Mapping[str, OptionKey]:
    """Return the keys of named listeners."""
    defaults, what = ListenerOptions(), explain(ListenerOptions)
    return {key.name: key for name in names for key in _keys_of(f"{LISTENERS}.{name}.", defaults, what)}


def find_listener_key(name: str) -> OptionKey | None:
    """Return the option of a listener that an environment variable gives; None for any other variable."""
    prefix = variable(LISTENERS) + "_"
    if not name.startswith(prefix):
        return None
    rest = name.removeprefix(prefix).lower()
    # The longest: the option `advertised_host` ends like `host`.
    for option in sorted(explain(ListenerOptions), key=len, reverse=True):
        listener = rest.removesuffix(f"_{option}")
        if listener and listener != rest:
            return find_key(f"{LISTENERS}.{listener}.{option}")
    return None


def nearest(name: str, known: list[str]) -> str:
    """Return the error text for an unknown name."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"there is no option {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _key(name: str, kind: Any, default: Any, what: str) -> OptionKey:
    field = name.rpartition(".")[2]
    if kind is bool:
        return OptionKey(name, default, what, _truth, _toml_truth, bool)
    if kind is float and field.endswith("_s"):
        return OptionKey(name, default, what, duration_s, _toml_number(duration_s), show_duration)
    if kind is float:
        return OptionKey(name, default, what, _fraction, _toml_number(_fraction), float)
    if kind in (int, int | None) and "bytes" in field:
        return OptionKey(name, default, what, size_bytes, _toml_whole(size_bytes), _show_size)
    if kind is int:
        return OptionKey(name, default, what, _whole, _toml_whole(None), int)
    if kind is Path:
        return OptionKey(name, default, what, _path, lambda value: _path(_toml_text(value)), str)
    if kind is str:
        return OptionKey(name, default, what, _text, _toml_text, _text)
    assert kind == tuple[str, ...], f"the option {name} is of a kind that cannot be read: {kind}"
    return OptionKey(name, default, what, _texts, _toml_texts, list)


# ------------------------------------------------------------------------------------------------------ from text


def _text(text: str) -> str:
    return text


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _path(text: str) -> Path:
    if not text:
        raise ValueError("a path is expected, not an empty text")
    return Path(text).expanduser()


def _truth(text: str) -> bool:
    truth = _TRUTHS.get(text.strip().lower())
    if truth is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return truth


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a number")
    return number


# ------------------------------------------------------------------------------------------------------ from TOML


def _toml_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text in quotes is expected, not {value!r}")
    return value


def _toml_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'a list of texts like ["one", "two"] is expected, not {value!r}')
    return tuple(value)


def _toml_truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, without quotes, not {value!r}")
    return value


def _toml_whole(parse: Callable[[str], int] | None) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if parse is not None and isinstance(value, str):
            return parse(value)
        raise ValueError(
            f"a whole number is expected, not {value!r}"
            if parse is None
            else f'a size like 65536 or "64 MiB" is expected, not {value!r}'
        )

    return read


def _toml_number(parse: Callable[[str], float]) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        if parse is duration_s and isinstance(value, str):
            return duration_s(value)
        raise ValueError(
            f'a time like 90 or "10 min" is expected, not {value!r}'
            if parse is duration_s
            else f"a number is expected, not {value!r}"
        )

    return read


def _show_size(size: int | None) -> str | int | None:
    if size is None:
        return None
    shown = show_size(size)
    return int(shown) if shown.isdigit() else shown


_LEDGERS: Final[Mapping[str, str]] = {
    "segment_bytes": "size at which a segment file is full and the next one begins",
    "segment_records_max": "records at which a segment file is full; bounds the memory of the newest one's index",
    "entry_bytes_max": "largest stored message; at least twice frame_bytes_max",
    "queue_bytes_max": "bytes that wait to be written; beyond, further appends wait",
    "group_bytes_max": "bytes that are written and synced together",
    "group_records_max": "records that are written and synced together",
    "read_threads": "threads that read",
    "reads_in_flight_max": "reads at once; later ones wait",
    "rewrite_below": "share of live bytes below which a segment is rewritten, to give its space back",
    "rewrite_bytes_per_s": "how fast the store rewrites segments, at most",
    "upkeep_interval_s": "how often the store looks for segments to remove or rewrite",
    "reserve_bytes": "space kept for deleting on a full disk; not given: half a segment and 1 MiB",
}
