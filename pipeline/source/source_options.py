"""The options of the data source: the name of each, the values that it takes, and its default."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hedwig.errors import ConfigurationError, HedwigError
from hedwig.names import parse_name
from hedwig.pipeline.frames.policies import Policy
from hedwig.pipeline.frames.tables import (
    BATCH_ROWS_MAX,
    CONNECTIONS_MAX,
    ROWS_PER_PARTITION,
    ROWS_PER_PARTITION_MAX,
    TIMEOUT_MAX_S,
    OnCorrupt,
    Table,
)
from hedwig.pipeline.source.apply import ApplyConfig
from hedwig.pipeline.source.plan import NameRange, ScanConfig
from hedwig.pipeline.source.shared_stores import check_shared

__all__ = ["OnConflict", "SourceOptions"]

E = TypeVar("E", bound=enum.StrEnum)


class OnConflict(enum.StrEnum):
    """What to do at the end about rows that were not written."""

    FAIL = "fail"
    """The job fails, and reports their number and the first of them. All other rows are written."""
    REPORT = "report"
    """The driver logs the same report, and the job succeeds."""


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: the values that it takes, in words, and how to read one; `read` raises ValueError or HedwigError."""

    name: str
    takes: str
    read: Callable[[str], Any]
    default: str | None = None


def _choice(name: str, choices: type[E], default: E | None = None) -> _Option:
    takes = ", ".join(choices)
    return _Option(name, f"one of {takes}", lambda text: choices(text.lower()), default)


def _number(name: str, default: int, most: int) -> _Option:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
            raise ValueError
        return int(text)

    return _Option(name, f"a whole number from 1 to {most:,}", read, str(default))


def _flag(name: str) -> _Option:
    return _Option(name, "true or false", lambda text: {"true": True, "false": False}[text.lower()], "false")


def _topic(name: str, default: str | None = "") -> _Option:
    return _Option(
        name,
        "a topic or the beginning of one; \\xNN is a byte, \\\\ a backslash",
        parse_name,
        default,
    )


def _url(text: str) -> str:
    check_shared(text)
    return text


_URL: Final = _Option("url", "the URL of a metadata store, such as hbase://host:2181/hedwig", _url)
_TABLE: Final = _choice("table", Table)
_PREFIX: Final = _topic("prefix")
_START: Final = _topic("start")
_STOP: Final = _topic("stop", None)
_ROWS_PER_PARTITION: Final = _number("rowsPerPartition", ROWS_PER_PARTITION, ROWS_PER_PARTITION_MAX)
_FETCH_ROWS: Final = _number("fetchRows", 8_192, 100_000)
_READ_BATCH_ROWS: Final = _number("batchRows", 8_192, 100_000)
_WRITE_BATCH_ROWS: Final = _number("batchRows", 512, BATCH_ROWS_MAX)
_CONNECTIONS: Final = _number("connections", 4, CONNECTIONS_MAX)
_TIMEOUT: Final = _number("timeoutSeconds", 30, TIMEOUT_MAX_S)
_ON_CORRUPT: Final = _choice("onCorrupt", OnCorrupt, OnCorrupt.FAIL)
_PUSHDOWN: Final = _flag("pushdown")
_POLICY: Final = _choice("policy", Policy, Policy.CREATE)
_ON_CONFLICT: Final = _choice("onConflict", OnConflict, OnConflict.FAIL)
_HUBS_STOPPED: Final = _flag("hubsStopped")

_READING: Final = (
    _URL, _TABLE, _PREFIX, _START, _STOP, _ROWS_PER_PARTITION, _FETCH_ROWS, _READ_BATCH_ROWS, _TIMEOUT, _ON_CORRUPT,
    _PUSHDOWN,
)  # fmt: skip
_WRITING: Final = (
    _URL, _TABLE, _POLICY, _WRITE_BATCH_ROWS, _CONNECTIONS, _TIMEOUT, _ON_CONFLICT, _HUBS_STOPPED,
)  # fmt: skip


class SourceOptions:
    """The options of one frame; case does not matter in their names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ConfigurationError - the data source knows no such option."""
        self._given = {name.lower(): text for name, text in options.items()}
        known = {option.name.lower() for option in (*_READING, *_WRITING)}
        for name in self._given:
            if name == "path":
                raise ConfigurationError(
                    "a store of Hedwig has no path: call load() and save() without one, and give "
                    "option('url', ...) and option('table', ...)"
                )
            if name not in known:
                names = sorted({option.name for option in (*_READING, *_WRITING)})
                raise ConfigurationError(f"the data source hedwig has no option {name!r}; it has {', '.join(names)}")

    @property
    def table(self) -> Table:
        """Return the table. Raises ConfigurationError."""
        table: Table = self._value(_TABLE)
        return table

    @property
    def pushdown(self) -> bool:
        """Say whether filters on the topic are left to the store. Raises ConfigurationError."""
        return bool(self._value(_PUSHDOWN))

    @property
    def on_conflict(self) -> OnConflict:
        """Return what to do at the end about rows that were not written. Raises ConfigurationError."""
        choice: OnConflict = self._value(_ON_CONFLICT)
        return choice

    def scan_config(self) -> ScanConfig:
        """Return what to read and how. Raises ConfigurationError - names the option and what it takes."""
        self._refuse_others("reading", _READING)
        return ScanConfig(
            url=self._value(_URL),
            table=self.table,
            names=NameRange(prefix=self._value(_PREFIX), start=self._value(_START), stop=self._value(_STOP)),
            rows_per_partition=self._value(_ROWS_PER_PARTITION),
            fetch_rows=self._value(_FETCH_ROWS),
            batch_rows=self._value(_READ_BATCH_ROWS),
            on_corrupt=self._value(_ON_CORRUPT),
            operation_timeout_s=self._value(_TIMEOUT),
        )

    def apply_config(self) -> ApplyConfig:
        """Return where to write and how. Raises ConfigurationError - names the option and what it takes."""
        self._refuse_others("writing", _WRITING)
        return ApplyConfig(
            url=self._value(_URL),
            table=self.table,
            policy=self._value(_POLICY),
            batch_rows=self._value(_WRITE_BATCH_ROWS),
            connections=self._value(_CONNECTIONS),
            hubs_stopped=self._value(_HUBS_STOPPED),
            operation_timeout_s=self._value(_TIMEOUT),
        )

    def _value(self, option: _Option) -> Any:
        text = self._given.get(option.name.lower(), option.default)
        if text is None:
            if option in (_URL, _TABLE):
                raise ConfigurationError(f"the option {option.name!r} is missing: it takes {option.takes}")
            return None
        try:
            return option.read(text)
        except (ValueError, KeyError, HedwigError) as exc:
            reason = f" ({exc})" if isinstance(exc, HedwigError) else ""
            raise ConfigurationError(
                f"the option {option.name!r} is {text!r}; it takes {option.takes}{reason}"
            ) from exc

    def _refuse_others(self, doing: str, options: tuple[_Option, ...]) -> None:
        """Raise ConfigurationError for an option of the other direction, which would have no effect."""
        known = {option.name.lower() for option in options}
        for name in self._given:
            if name not in known:
                names = ", ".join(option.name for option in options)
                raise ConfigurationError(f"the option {name!r} is not for {doing}; for that there are {names}")
