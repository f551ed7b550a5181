"""Repeated looks at the load of all hubs. A slow hub does not delay the reading of the others."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from hedwig.operations.deployment.admin_endpoint import EndpointError, RefusedError
from hedwig.operations.deployment.deployment import Deployment

__all__ = ["HubReading", "HubSurvey", "TopicReading", "WatchedHub"]

_THREADS: Final = 32
_PATIENCE_S: Final = 2.0
"""How long one request to a hub may take. A hub does little work for it, and quitting waits for the last request."""

_LEVELS: Final = ("topics", "channels", "attached_subscriptions", "attached_lag_messages")
_RATES: Final = {
    "published_messages": "publishes_per_s",
    "delivered_messages": "deliveries_per_s",
    "read_messages": "reads_per_s",
    "refused_requests": "refusals_per_s",
    "acquired_topics": "claims_per_s",
    "metadata_conflicts": "conflicts_per_s",
}


@dataclass(frozen=True, slots=True)
class WatchedHub:
    """A registered hub: host:port for clients, and host:port of its admin endpoint if it has one."""

    name: str
    admin: str | None
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class HubReading:
    """The load of a hub at a moment. Unknown numbers are None; `state` is one word.

    `serving`, `draining` and `hindered` are answers of the hub; a hindered hub would not accept publishes. `late`: the
    hub did not answer this time, and the numbers are older. `silent`: it does not answer. `original`: it has no admin
    endpoint.
    """

    hub: str
    state: str
    why: str | None
    topics: int | None = None
    channels: int | None = None
    attached_subscriptions: int | None = None
    attached_lag_messages: int | None = None
    publishes_per_s: float | None = None
    deliveries_per_s: float | None = None
    reads_per_s: float | None = None
    refusals_per_s: float | None = None
    claims_per_s: float | None = None
    conflicts_per_s: float | None = None

    def fields(self) -> dict[str, Any]:
        """Return it as a row."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TopicReading:
    """One of the topics with most publishes, at a moment. The rate is None until the second look."""

    topic: str
    hub: str
    attached: int
    attached_lag_messages: int
    publishes_per_s: float | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answers of a hub to requests sent at `at`, in seconds of the monotonic clock."""

    at: float
    load: Mapping[str, Any]
    hindrances: Sequence[str]
    busy: Sequence[Mapping[str, Any]]


class HubSurvey:
    """Asks the hubs that `find` returns, all at once. Close it in the end.

    `find` may raise any error. The first look raises it. A later look uses the hubs of the look before, and puts the
    error into `trouble`.
    """

    def __init__(
        self,
        deployment: Deployment,
        find: Callable[[], Awaitable[Sequence[WatchedHub]]],
        *,
        topics_max: int = 0,
    ) -> None:
        """Prepare a survey. With `topics_max` it also reads the busiest topics."""
        self._deployment = deployment
        self._topics_max = topics_max
        self._timeout_s = min(deployment.timeout_s, _PATIENCE_S)
        self._find = find
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="hub-survey")
        self._hubs: Sequence[WatchedHub] | None = None
        self._asking: dict[str, asyncio.Future[_Answer]] = {}
        self._answers: dict[str, _Answer] = {}
        self._rates: dict[str, Mapping[str, Any]] = {}
        self._silent: dict[str, str] = {}
        self.trouble: str | None = None

    async def look(self, within_s: float) -> list[HubReading]:
        """Return the load of each hub, in the order of `find`. Waits for answers for at most `within_s`."""
        hubs = await self._find_hubs()
        loop = asyncio.get_running_loop()
        for hub in hubs:
            if hub.admin is not None and hub.name not in self._asking:
                self._asking[hub.name] = loop.run_in_executor(self._pool, self._ask, hub.name, hub.admin)
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=within_s)
        was_late = {hub.name for hub in hubs if hub.name in self._asking and not self._asking[hub.name].done()}
        self._collect()
        self._forget({hub.name for hub in hubs})
        return [self._reading(hub, is_late=hub.name in was_late) for hub in hubs]

    def busiest(self) -> list[TopicReading]:
        """Return the topics of all hubs by publish rate, highest first, as of the last look."""
        readings = [
            TopicReading(row["topic"], hub, row["attached"], row["attached_lag_messages"], row["publishes_per_s"])
            for hub, answer in self._answers.items()
            for row in answer.busy
        ]
        readings.sort(key=lambda each: (each.publishes_per_s or 0, each.attached_lag_messages), reverse=True)
        return readings[: self._topics_max]

    def close(self) -> None:
        """Send no more requests. Those under way end soon by themselves."""
        for asked in self._asking.values():
            asked.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _find_hubs(self) -> Sequence[WatchedHub]:
        try:
            self._hubs = await self._find()
        except Exception as exc:
            if self._hubs is None:
                raise
            self.trouble = " ".join(str(exc).split())
        else:
            self.trouble = None
        return self._hubs or ()

    def _ask(self, name: str, admin: str) -> _Answer:
        endpoint = self._deployment.admin_client(name, admin, self._timeout_s)
        load = endpoint.get("/load?lag=on")
        at = time.monotonic()
        try:
            hindrances = endpoint.get("/ready")["hindrances"]
        except RefusedError as exc:
            hindrances = exc.answer.get("hindrances") or [exc.said]
        busy = endpoint.get(f"/busy?limit={self._topics_max}")["topics"] if self._topics_max else ()
        return _Answer(at, load, hindrances, busy)

    def _collect(self) -> None:
        for name, asked in list(self._asking.items()):
            if not asked.done():
                continue
            del self._asking[name]
            try:
                answer = asked.result()
            except EndpointError as exc:
                self._silent[name] = exc.why
                self._answers.pop(name, None)
                continue
            self._silent.pop(name, None)
            self._rates[name] = _rates(self._answers.get(name), answer)
            self._answers[name] = answer

    def _forget(self, there: set[str]) -> None:
        """Drop what is known of hubs that are not in `there`."""
        _keep_only(there, self._answers)
        _keep_only(there, self._rates)
        _keep_only(there, self._silent)

    def _reading(self, hub: WatchedHub, *, is_late: bool) -> HubReading:
        if hub.admin is None:
            return HubReading(hub.name, "original", "it announces no admin endpoint")
        answer = self._answers.get(hub.name)
        if answer is None:
            return HubReading(hub.name, "silent", self._silent.get(hub.name, "it has not answered yet"))
        state, why = _state(hub, answer, is_late=is_late)
        levels = {name: answer.load.get(name) for name in _LEVELS}
        return HubReading(hub.name, state, why, **levels, **self._rates[hub.name])


def _keep_only(there: set[str], known: MutableMapping[str, Any]) -> None:
    for name in known.keys() - there:
        del known[name]


def _state(hub: WatchedHub, answer: _Answer, *, is_late: bool) -> tuple[str, str | None]:
    if is_late:
        return "late", "it did not answer in time: these numbers are older"
    if answer.hindrances:
        return "hindered", "; ".join(answer.hindrances)
    return ("draining", None) if hub.is_draining else ("serving", None)


def _rates(before: _Answer | None, now: _Answer) -> Mapping[str, float | None]:
    """Return the rates between two answers. Without a first one, return the hub's rates of the last minute."""
    counters = now.load["since_start"]
    if before is None or now.at <= before.at:
        minute = now.load["rates_per_s"]
        return {name: minute.get(counter) for counter, name in _RATES.items()}
    earlier, seconds = before.load["since_start"], now.at - before.at
    rates: dict[str, float | None] = {}
    for counter, name in _RATES.items():
        moved = counters.get(counter, 0) - earlier.get(counter, 0)
        # A counter that went back is from a new start of the hub.
        rates[name] = None if counter not in counters or moved < 0 else moved / seconds
    return rates
