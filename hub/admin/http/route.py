"""A route of the admin endpoint: what it answers, and who may ask."""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from hedwig.access import Action
from hedwig.hub.admin.http.parameters import topic_of
from hedwig.model import Topic
from hedwig.names import as_topic, parse_name

__all__ = ["Handler", "Route", "Scope", "topic_in"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Scope(enum.Enum):
    """For what the rules must allow the action of a route."""

    ANYBODY = enum.auto()
    """Nothing: probes ask without a name. The handler says little to those who may not see the hub."""
    OPERATORS = enum.auto()
    """Nothing, to those who have said who they are. The handler leaves out what they may not see."""
    HUB = enum.auto()
    """All topics, by a rule on `*`."""
    TOPIC = enum.auto()
    """The topic that the request names."""


@dataclass(frozen=True, slots=True)
class Route:
    """Requests with this method and path. `parameters` are those that they may have."""

    method: str
    path: str
    handler: Handler
    parameters: frozenset[str] = frozenset()
    action: Action = Action.VIEW
    scope: Scope = Scope.HUB


def topic_in(request: web.Request) -> Topic:
    """Return the topic that a request names, in its path or as a parameter. Raises: InvalidArgumentError."""
    name = request.match_info.get("name")
    return topic_of(request) if name is None else as_topic(parse_name(name))
