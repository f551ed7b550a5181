"""Log lines whose number does not grow with topics or connections: one line is logged, and the others are counted."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["CountingHandler"]

_NAMES_MAX: Final = 3
_INFO_AT_ONCE: Final = 10
_KINDS_MAX: Final = 200
"""With more kinds than this at a time, each further line is logged. It only bounds memory: the code has few kinds."""

_ABOUT_CONNECTIONS: Final = frozenset(
    {
        "hedwig.hub.access.access_control",
        "hedwig.hub.access.logins",
        "hedwig.hub.access.newcomers",
        "hedwig.hub.access.revocation",
        "hedwig.hub.connections.channel",
        "hedwig.hub.connections.listeners",
        "hedwig.hub.connections.slots",
        "hedwig.hub.connections.tls.certificates",
        "hedwig.hub.connections.tls.listener",
        "hedwig.hub.connections.unfinished_frames",
        "hedwig.hub.subscriptions.standbys",
    }
)
"""The loggers whose lines are about one connection. Any client can cause thousands of such lines a second."""

_Kind: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Crowd:
    """The lines of one kind within a window: how many were logged at once, and the others."""

    said: int = 0
    last: logging.LogRecord | None = None
    count: int = 0
    names: list[str] = field(default_factory=list)


class CountingHandler(logging.Handler):
    """Passes lines on to another handler: of each kind one per time window, with the number of the others.

    Lines of one kind have the same logger, the same text and the same class of cause. The cause is the last argument of
    the text; the first argument is the name of the topic or peer concerned. The first line is passed on at once. The
    others are counted. One line at the end of the window shows the last of them, their number, and the first three
    names.

    The window is `window_s`, and `connection_window_s` for lines about connections. Of other lines below a warning, the
    first ten are passed on at once. So lines about hubs and bookies stay in order, and lines about each topic are
    counted. Debug lines are passed on as they are. Any thread may log.
    """

    def __init__(self, target: logging.Handler, window_s: float = 10.0, connection_window_s: float = 1.0) -> None:
        super().__init__(target.level)
        self._target = target
        self._window_s = window_s
        self._connection_window_s = connection_window_s
        self._crowds: dict[_Kind, _Crowd] = {}
        """The kinds that had a line logged within the last window."""
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
        """Log the lines counted so far. The windows begin anew."""
        with self._locked():
            for kind in list(self._crowds):
                self._timers.pop(kind).cancel()
                self._say(kind)
        self._target.flush()

    def close(self) -> None:
        """Log the lines counted so far, and close."""
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
                # More lines of this kind are likely, so the next line is logged a window later.
                self._crowds[kind] = _Crowd(_at_once(last))
                self._begin_window(kind)

    def _say(self, kind: _Kind) -> logging.LogRecord | None:
        """Log the counted lines as one, and forget them; return the last of them, None if there was none."""
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
    """Return how many lines like this are logged at once, before others of their kind are counted."""
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
