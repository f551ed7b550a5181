"""The options of a hub, with the origin of each. A flag wins over the environment, that over the file and defaults."""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from hedwig.errors import ConfigurationError
from hedwig.hub.options.keys import (
    FILTERS,
    LISTENERS,
    TABLES,
    find_key,
    find_listener_key,
    keys,
    nearest,
    of_listeners,
    variable,
)
from hedwig.hub.options.listener_options import ListenerOptions
from hedwig.hub.options.options import HubOptions

__all__ = ["DEFAULT", "Configuration", "Given", "from_defaults", "from_environment", "from_file", "from_setting"]

DEFAULT: Final = "default"
_FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Given:
    """A value given for a key, and its origin: `file hub.toml`, `environment HEDWIG_HUB_PORT`, `flag --port`."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """The options of a hub, and the origin of each that is not the default, by key."""

    options: HubOptions
    origins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def combine(cls, *layers: Iterable[Given]) -> "Configuration":
        """Combine the values of `layers`. Later layers replace values of earlier ones; filters and listeners add up.

        Raises: ConfigurationError - a value is out of its range, or two values conflict (the text names their origins).
        """
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for given in (each for layer in layers for each in layer):
            values[given.key] = given.value
            origins[given.key] = given.origin
        tables: dict[str, dict[str, Any]] = {table: {} for table in (FILTERS, LISTENERS, *TABLES)}
        options: dict[str, Any] = {}
        for key, value in values.items():
            table, dot, rest = key.partition(".")
            if dot:
                tables[table][rest] = value
            else:
                options[key] = value
        try:
            options |= {table: record(**tables[table]) for table, record in TABLES.items()}
            options["filters"] = MappingProxyType(tables[FILTERS])
            options["listeners"] = MappingProxyType(_listeners(tables[LISTENERS]))
            return cls(HubOptions(**options), MappingProxyType(origins))
        except ConfigurationError as exc:
            raise ConfigurationError(_with_origins(str(exc), origins)) from exc

    def values(self) -> Mapping[str, Any]:
        """Return the value of every option by key, in bytes and seconds."""
        values: dict[str, Any] = {}
        for name in keys():
            table, dot, rest = name.partition(".")
            values[name] = getattr(getattr(self.options, table), rest) if dot else getattr(self.options, name)
        for name, listener in self.options.listeners.items():
            values |= {key: getattr(listener, key.rpartition(".")[2]) for key in of_listeners(name)}
        return values | {f"{FILTERS}.{name}": maker for name, maker in self.options.filters.items()}

    def origin(self, key: str) -> str:
        """Return the origin of the value of `key`."""
        return self.origins.get(key, DEFAULT)


def from_defaults(values: Mapping[str, Any], origin: str) -> list[Given]:
    """Return values of the program itself that replace the usual defaults."""
    return [Given(key, value, origin) for key, value in values.items()]


def from_file(path: Path) -> list[Given]:
    """Return the values in a TOML file.

    Raises: ConfigurationError - it cannot be read, is no TOML, or has a wrong key or value (the text names the file).
    """
    origin = f"file {path}"
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
        if len(text) > _FILE_BYTES_MAX:
            raise ConfigurationError(f"{origin}: it has more than {_FILE_BYTES_MAX} bytes; is this the hub's file?")
        content = tomllib.loads(text.decode())
    except OSError as exc:
        raise ConfigurationError(f"cannot read the {origin}: {exc.strerror or exc}") from exc
    except ValueError as exc:  # Not TOML, or not UTF-8.
        raise ConfigurationError(f"{origin}: this is not TOML: {exc}") from exc
    values: list[Given] = []
    for name, value in content.items():
        if name == FILTERS or name in TABLES:
            if not isinstance(value, dict):
                raise ConfigurationError(f"{origin}: {name}: a table [{name}] is expected, not {value!r}")
            values += [_from_toml(f"{name}.{key}", each, origin) for key, each in value.items()]
        elif name == LISTENERS:
            values += _from_listeners(value, origin)
        else:
            values.append(_from_toml(name, value, origin))
    return values


def _from_listeners(value: Any, origin: str) -> list[Given]:
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise ConfigurationError(f"{origin}: {LISTENERS}: tables [{LISTENERS}.NAME] are expected, not {value!r}")
    return [
        _from_toml(f"{LISTENERS}.{name}.{key}", each, origin)
        for name, options in value.items()
        for key, each in options.items()
    ]


def _listeners(values: Mapping[str, Any]) -> Mapping[str, ListenerOptions]:
    """Return the listeners by name, from values by NAME.OPTION. Raises: ConfigurationError."""
    listeners: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        name, _, option = key.rpartition(".")
        listeners.setdefault(name, {})[option] = value
    made = {}
    for name, options in listeners.items():
        try:
            made[name] = ListenerOptions(**options)
        except ConfigurationError as exc:
            raise ConfigurationError(f"{LISTENERS}.{name}: {exc}") from exc
    return made


def _from_toml(name: str, value: Any, origin: str) -> Given:
    try:
        key = find_key(name)
    except ValueError as exc:
        raise ConfigurationError(f"{origin}: {exc}") from exc
    if name.startswith(f"{FILTERS}.") and isinstance(value, dict):
        raise ConfigurationError(
            f'{origin}: {name}: put the name of a filter that has dots into quotes: "{name[8:]}.…"'
        )
    try:
        return Given(key.name, key.from_toml(value), origin)
    except ValueError as exc:
        raise ConfigurationError(f"{origin}: {name}: {exc}") from exc


def from_environment(environment: Mapping[str, str] = os.environ, *, others: Iterable[str] = ()) -> list[Given]:
    """Return the values of variables `HEDWIG_HUB_…`. Empty ones count as not set, and `others` are not options.

    Raises: ConfigurationError - a variable names no option, or has a wrong value.
    """
    known = {variable(key): key for key in keys()} | {variable(FILTERS): FILTERS}
    prefix, others = variable(""), set(others)
    values: list[Given] = []
    for name, text in environment.items():
        if not name.startswith(prefix) or name in others or not text:
            continue
        origin = f"environment {name}"
        if (listener_key := find_listener_key(name)) is not None:
            values.append(_from_text(listener_key.name, text, origin))
            continue
        if name not in known:
            raise ConfigurationError(f"{origin}: {nearest(name, [*known, *others])}")
        if known[name] == FILTERS:
            values += [from_setting(f"{FILTERS}.{part.strip()}", origin) for part in text.split(",")]
        else:
            values.append(_from_text(known[name], text, origin))
    return values


def from_setting(setting: str, origin: str) -> Given:
    """Return the value in `KEY=VALUE`. Raises: ConfigurationError - not of this form, or a wrong key or value."""
    # The name of a filter has no equals sign, but a value may have one.
    name, equals, text = setting.partition("=")
    if not equals:
        raise ConfigurationError(f"{origin}: {setting!r} is not KEY=VALUE")
    return _from_text(name.strip(), text.strip(), origin)


def _from_text(name: str, text: str, origin: str) -> Given:
    try:
        key = find_key(name)
    except ValueError as exc:
        raise ConfigurationError(f"{origin}: {exc}") from exc
    try:
        return Given(key.name, key.from_text(text), origin)
    except ValueError as exc:
        raise ConfigurationError(f"{origin}: {name}: {exc}") from exc


def _with_origins(text: str, origins: Mapping[str, str]) -> str:
    """Add to an error text the origins of the options that it names."""
    named: dict[str, str] = {}
    head = text.partition(":")[0]
    table = f"{head}." if head in TABLES or head.startswith(f"{LISTENERS}.") else ""
    for word in re.findall(r"[a-z_]+(?:\.[a-z_]+)?", text):
        for key in (word, table + word):
            if (origin := origins.get(key)) is not None:
                named[key] = origin
    if not named:
        return text
    with contextlib.suppress(ValueError):
        (origin,) = set(named.values())
        return f"{origin}: {text}"
    return f"{text} ({', '.join(f'{key}: {origin}' for key, origin in named.items())})"
