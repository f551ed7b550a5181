"""Log lines that do not grow with topics or connections: what befalls many at once is said once, and then counted."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["CountingHandler"]

_NAMES_MAX: Final = 3
_INFO_AT_ONCE: Final = 10
_KINDS_MAX: Final = 200
"""Of more kinds of lines at a time, each is said: a bound on memory only, since kinds are written in the code."""

_ABOUT_CONNECTIONS: Final = frozenset(
    {
        "hedwig.hub.connections.channel",
        "hedwig.hub.connections.slots",
        "hedwig.hub.connections.tls_listener",
        "hedwig.hub.connections.unfinished_frames",
    }
)
"""The loggers whose lines tell of one connection. Anybody who can connect has the hub write thousands in a second."""

_Kind: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Crowd:
    """The lines of one kind within a window: how many were said at once, and those that were not."""

    said: int = 0
    last: logging.LogRecord | None = None
    count: int = 0
    names: list[str] = field(default_factory=list)


class CountingHandler(logging.Handler):
    """Passes lines on to another handler: of each kind one in a window of time, with the number of the others.

    Of one kind are lines of one text with one class of cause, which is the last thing that is put into the text. The
    first thing put into it is the name of whom it befell. The first line is passed on at once. The others are counted,
    and said in one line at the end of the window: the last of them, how many there were, and the first three names.

    The window is `window_s`, and `connection_window_s` for lines about connections. Of other lines that are less than a
    warning the first ten are passed on at once: what befalls hubs and bookies comes in its order, and what befalls each
    topic is counted. Lines for debugging are passed on as they are. Any thread may log.
    """

    def __init__(self, target: logging.Handler, window_s: float = 10.0, connection_window_s: float = 1.0) -> None:
        super().__init__(target.level)
        self._target = target
        self._window_s = window_s
        self._connection_window_s = connection_window_s
        self._crowds: dict[_Kind, _Crowd] = {}
        """The kinds of which a line was said within the last window."""
        self._timers: dict[_Kind, threading.Timer] = {}

    def emit(self, record: logging.LogRecord) -> None:
        # Called with the lock of this handler.
        if record.levelno < logging.INFO:
            self._target.handle(record)
            return
        kind = _kind(record)
        crowd = self._crowds.get(kind)
        if crowd is None:
            crowd = _Crowd()
            if len(self._crowds) < _KINDS_MAX:
                self._crowds[kind] = crowd
                self._begin_window(kind)
        if crowd.said < _at_once(record):
            crowd.said += 1
            self._target.handle(record)
        else:
            _count(crowd, record)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        self._target.setFormatter(fmt)

    def flush(self) -> None:
        """Say what was counted so far. The windows begin anew."""
        with self._locked():
            for kind in list(self._crowds):
                self._timers.pop(kind).cancel()
                self._say(kind)
        self._target.flush()

    def close(self) -> None:
        """Say what was counted, and close."""
        self.flush()
        self._target.close()
        super().close()

    def _locked(self) -> threading.RLock:
        assert self.lock is not None, "logging makes it"
        return self.lock

    def _begin_window(self, kind: _Kind) -> None:
        timer = self._timers[kind] = threading.Timer(self._window_of(kind[0]), self._end_window, (kind,))
        timer.daemon = True
        timer.start()

    def _window_of(self, logger: str) -> float:
        return self._connection_window_s if logger in _ABOUT_CONNECTIONS else self._window_s

    def _end_window(self, kind: _Kind) -> None:
        with self._locked():
            if kind not in self._timers:
                return  # It was closed meanwhile.
            del self._timers[kind]
            last = self._say(kind)
            if last is not None:
                # It goes on, so the next line comes a window later.
                self._crowds[kind] = _Crowd(_at_once(last))
                self._begin_window(kind)

    def _say(self, kind: _Kind) -> logging.LogRecord | None:
        """Say what was counted, and forget it; return the last line of it, None if there was none."""
        crowd = self._crowds.pop(kind)
        last = crowd.last
        if last is None:
            return None
        text = last.getMessage()
        if crowd.count > 1:
            more = ", …" if crowd.count > len(crowd.names) else ""
            whom = f": {', '.join(crowd.names)}{more}" if crowd.names else ""
            text = f"{text} [and {crowd.count - 1:,} more like it within {self._window_of(last.name):g} s{whom}]"
        said = logging.LogRecord(
            last.name, last.levelno, last.pathname, last.lineno, text, None, last.exc_info, last.funcName
        )
        self._target.handle(said)
        return last


def _at_once(record: logging.LogRecord) -> int:
    """Return how many lines like this are said at once, before others of their kind are counted."""
    return 1 if record.levelno >= logging.WARNING or record.name in _ABOUT_CONNECTIONS else _INFO_AT_ONCE


def _count(crowd: _Crowd, record: logging.LogRecord) -> None:
    crowd.last = record
    crowd.count += 1
    name = _name(record)
    if name and len(crowd.names) < _NAMES_MAX and name not in crowd.names:
        crowd.names.append(name)


def _kind(record: logging.LogRecord) -> _Kind:
    cause = record.args[-1] if isinstance(record.args, tuple) and record.args else None
    return record.name, str(record.msg), type(cause).__name__ if isinstance(cause, BaseException) else ""


def _name(record: logging.LogRecord) -> str:
    return str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
