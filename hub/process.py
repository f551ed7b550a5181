"""The process of a hub: an event loop, signals, and one hub from start to end."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Any, Final

from hedwig.clock import Clock
from hedwig.errors import MissingExtraError
from hedwig.extras import needed
from hedwig.hub.hub import AdminListener, Hub
from hedwig.hub.options.configuration import Configuration

__all__ = ["run_hub", "start_hub"]

_log = logging.getLogger(__name__)

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_SAME_S: Final = 1.0
"""For how long the hub ignores further signals after the first.

Supervisors send SIGTERM and SIGHUP together, and a terminal and `timeout` send one each. No operator decides within a
second that an orderly end takes too long.
"""

_COLLECTOR_THRESHOLDS: Final = (50_000, 20, 100)


def run_hub(
    configuration: Configuration, ready: Callable[[Hub], None], *, replace_standalone: bool = False
) -> signal.Signals:
    """Serve until a signal arrives, and return that signal once the hub is closed.

    Another signal more than a second later ends the process at once. `ready` is called once the hub serves.

    Raises: as Hub.start; StandaloneHubExistsError also when another hub replaces this one while it serves.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(configuration, ready, replace_standalone))


async def start_hub(
    configuration: Configuration, clock: Clock | None = None, *, replace_standalone: bool = False
) -> Hub:
    """Start a hub, with an admin endpoint if its options ask for one. Raises: as Hub.start."""
    make_admin = _make_admin(configuration) if configuration.options.admin_port >= 0 else None
    return await Hub.start(configuration.options, clock, make_admin=make_admin, replace_standalone=replace_standalone)


def _make_admin(configuration: Configuration) -> Callable[[Hub], AdminListener]:
    with needed("hub", "the admin endpoint needs", instead="set admin_port to -1"):
        from hedwig.hub.admin.endpoint import AdminEndpoint
    return lambda hub: AdminEndpoint(hub, configuration.origins)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        with needed("hub", "to be as fast as it can be, this hub needs"):
            import uvloop
    except MissingExtraError as exc:
        _log.warning("%s", exc)
        return None
    return uvloop.new_event_loop


async def _serve(
    configuration: Configuration, ready: Callable[[Hub], None], replace_standalone: bool
) -> signal.Signals:
    ending = _ending_signal()
    starting = asyncio.create_task(start_hub(configuration, replace_standalone=replace_standalone))
    # A start may take as long as its deadlines. A signal meanwhile ends the process without waiting for them.
    both: tuple[asyncio.Future[Any], ...] = (starting, ending)
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        if starting.cancelled():
            return await ending
    hub = starting.result()
    _spare_the_collector()
    try:
        if not ending.done():
            ready(hub)
        ends: tuple[asyncio.Future[Any], ...] = (ending, hub.failed)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            raise hub.failed.result()
        number = ending.result()
        _log.info("%s: shutting down, %d topics are to be released", number.name, len(hub.topics))
    finally:
        await hub.close()
    _log.info("the hub is closed")
    return number


def _spare_the_collector() -> None:
    """Make the garbage collector scan young objects in larger lots, and never again those of the start.

    Its defaults are made for programs with few objects. With them, a hub with a million topics spent half its time in
    the collector. Reference counts free what a hub drops; the collector is needed for rare cycles only.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


def _ending_signal() -> "asyncio.Future[signal.Signals]":
    """Return the first signal to arrive; another one, over a second later, ends the process at once."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[signal.Signals] = loop.create_future()
    first_at = 0.0

    def take(number: signal.Signals) -> None:
        nonlocal first_at
        if first.done():
            if loop.time() - first_at < _SAME_S:
                _log.info("%s too: already shutting down", number.name)
                return
            _log.warning("%s again: ending at once; the next start takes over what is not released", number.name)
            os._exit(128 + number)
        first_at = loop.time()
        first.set_result(number)

    for number in _ENDING:
        # A shell makes a background command ignore SIGINT, but an explicit SIGINT is meant, so the hub handles it. The
        # hub leaves an ignored SIGHUP ignored: under nohup, the end of the terminal must not end the process.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, take, number)
    return first
