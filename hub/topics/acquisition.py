"""An acquisition: a topic that a hub is about to own, and the requests that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hedwig.errors import HedwigError
from hedwig.hub.access.counts import Making
from hedwig.hub.topics.topic import OwnedTopic

__all__ = ["Acquisition", "Waiter"]


@dataclass(slots=True)
class Waiter:
    """A request for a topic; `makes` says whether it makes a topic that does not exist, `making` by which limits."""

    makes: bool
    making: Making | None
    should_claim: bool
    tried: Sequence[bytes]
    serve: Callable[[OwnedTopic], None]
    refuse: Callable[[HedwigError], None]


@dataclass(slots=True)
class Acquisition:
    """A topic that the hub is acquiring, and the requests that wait for it."""

    waiters: deque[Waiter] = field(default_factory=deque)
    running: asyncio.Task[None] | None = None
    """Set once its turn has come."""

    def end(self, topic: OwnedTopic | None, error: HedwigError) -> None:
        """Serve all requests with the topic, or refuse them. No other task runs meanwhile, so they keep their order."""
        for waiter in self.waiters:
            if topic is not None and topic.is_serving:
                waiter.serve(topic)
            else:
                waiter.refuse(error)

    @property
    def makes(self) -> bool:
        """Whether any waiting request makes the topic if there is none."""
        return any(waiter.makes for waiter in self.waiters)

    @property
    def makes_freely(self) -> bool:
        """Whether any of them makes it without a limit."""
        return any(waiter.makes and waiter.making is None for waiter in self.waiters)

    @property
    def should_claim(self) -> bool:
        """Whether another hub sent any waiting request here."""
        return any(waiter.should_claim for waiter in self.waiters)

    @property
    def tried(self) -> frozenset[bytes]:
        """The hubs that have redirected any waiting request."""
        return frozenset(hub for waiter in self.waiters for hub in waiter.tried)

    def refuse_the_first_that_make_nothing(self, error: HedwigError) -> None:
        """Refuse the requests that make no topic, up to the first that makes it."""
        while self.waiters and not self.waiters[0].makes:
            self.waiters.popleft().refuse(error)

    def refuse_all_not_sent_here(self, error: HedwigError) -> None:
        """Refuse the requests that no other hub sent here."""
        refused = [waiter for waiter in self.waiters if not waiter.should_claim]
        self.waiters = deque(waiter for waiter in self.waiters if waiter.should_claim)
        for waiter in refused:
            waiter.refuse(error)
