"""What happened in one run: requests, answers and deliveries of clients, faults, and claims of hubs."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.support.terms import Acknowledgement
from tests.hub.support.delivery_history import Acknowledged, DeliveryHistory

__all__ = ["Attempt", "ChaosHistory", "Fault"]

_PUBLISH: Final = "Publish"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request of our client to one hub: the status of the answer, or the class of the error.

    `text` is the text of the answer, in a redirect the other hub's address. `local` is the id of a publish.
    `request` is the same for all attempts of one request of the application. `should_claim` says whether the client
    asked the hub to own the topic, since another hub had redirected it.
    """

    topic: bytes
    action: str
    hub: str
    sent: float
    ended: float
    came: str
    text: str
    local: int | None
    request: int
    should_claim: bool


@dataclass(slots=True)
class Fault:
    """A fault of servers: what was done, when it began and ended, and when all servers answered again.

    From `clock_from` on, topics had to be served again within `limit_s`. For a hub that stayed killed that is the kill,
    for any other fault the moment when every server answered. `served_s` is how long that took for the slowest of
    `topics`. For `starved_s` of it a hub, or the clients, waited for a processor, which does not count. `slowest` is
    one of the topics that took that long. `late` are topics that were not served even much later.
    """

    what: str
    began: float
    ended: float = 0.0
    answered: float = 0.0
    clock_from: float = 0.0
    limit_s: float = 0.0
    starved_s: float = 0.0
    topics: int = 0
    served_s: float = 0.0
    half_served_s: float = 0.0
    slowest: str = ""
    late: tuple[str, ...] = ()

    def line(self, origin: float) -> str:
        """Return the fault as a line of the log."""
        over_s, answered_s = self.ended - self.began, self.answered - self.began
        lines = (
            f"{self.began - origin:7.2f} s  {self.what}; over after {over_s:.2f} s",
            f"all answer after {answered_s:.2f} s",
            f"{self.topics} topics served again within {self.served_s:.2f} s of {self.limit_s:g} s"
            f", {self.starved_s:.2f} s of it without a processor"
            f" (half of them {self.half_served_s:.2f} s; the last was {self.slowest})",
            *([f"NOT SERVED: {', '.join(self.late[:5])}"] if self.late else ()),
        )
        return "; ".join(lines)


@dataclass(slots=True)
class ChaosHistory(DeliveryHistory):
    """A history of a cluster. Times are seconds of one monotonic clock, that of all processes of this machine."""

    attempts: list[Attempt] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """Deliveries that our clients dropped, since no hub should have sent them; in words."""

    def acknowledgements(self) -> list[Acknowledgement]:
        """Return which hub acknowledged which publish; this is known only for our own clients."""
        return [
            Acknowledgement(each.topic, each.hub, each.local, each.sent, each.ended)
            for each in self.attempts
            if each.action == _PUBLISH and each.local is not None
        ]

    def acknowledged(self) -> int:
        """Return how many publishes were acknowledged."""
        return sum(isinstance(each.outcome, Acknowledged) for each in self.publishes)

    def write(self, path: Path, topics: Iterable[bytes]) -> None:
        """Write all records of some topics to a file, in the order of time, one JSON object a line."""
        chosen = set(topics)
        facts: list[tuple[float, dict[str, object]]] = []
        for publish in self.publishes:
            if publish.topic in chosen:
                facts.append((publish.sent, {"publish": asdict(publish), "outcome": repr(publish.outcome)}))
        for attempt in self.attempts:
            if attempt.topic in chosen:
                facts.append((attempt.sent, {"attempt": asdict(attempt)}))
        for session in self.sessions:
            if session.topic in chosen:
                facts.append((session.asked, {"session": asdict(session)}))
        for fault in self.faults:
            facts.append((fault.began, {"fault": asdict(fault)}))
        with path.open("w") as file:
            for at, fact in sorted(facts, key=lambda each: each[0]):
                file.write(f"{json.dumps({'at': at, **fact}, default=_as_text)}\n")


def _as_text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else repr(value)
