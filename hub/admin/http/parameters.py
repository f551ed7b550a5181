"""Reads and checks the parameters of requests to the admin endpoint. A bad value raises BadRequestError."""

import base64
from typing import Final

from aiohttp import web

from hedwig.hub.admin.http.errors import BadRequestError
from hedwig.hub.admin.name_page import start_of
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.names import as_subscriber, as_topic, parse_name
from hedwig.versions import Version

__all__ = [
    "HUB",
    "PAGE",
    "SUBSCRIBER",
    "TOPIC",
    "flag_of",
    "has_subscriber",
    "hub_of",
    "ledgers_of",
    "limit_of",
    "number_of",
    "page_of",
    "state_of",
    "subscriber_of",
    "topic_of",
    "version_of",
]

PAGE: Final = frozenset({"limit", "start_after", "token"})
TOPIC: Final = frozenset({"topic", "topic_base64"})
SUBSCRIBER: Final = frozenset({"subscriber", "subscriber_base64"})
HUB: Final = frozenset({"to", "epoch"})

_LIMIT: Final = 100
_LIMIT_MAX: Final = 10_000
_LEDGERS_MAX: Final = 1000
_NUMBER_MAX: Final = (1 << 64) - 1
_STATES: Final = {"on": True, "off": False}


def state_of(request: web.Request) -> bool:
    """Return the parameter `state`."""
    state = _STATES.get(request.query.get("state", ""))
    if state is None:
        raise BadRequestError(f"say which: {request.path}?state=on or {request.path}?state=off")
    return state


def flag_of(request: web.Request, name: str) -> bool:
    """Return a parameter that is on or off; off if it is not given."""
    flag = _STATES.get(request.query.get(name, "off"))
    if flag is None:
        raise BadRequestError(f"{name} is {request.query[name]!r}; it must be on or off")
    return flag


def topic_of(request: web.Request) -> Topic:
    """Return the topic that a request is about. Raises: InvalidArgumentError - it is no name of a topic."""
    return as_topic(_name_of(request, "topic"))


def subscriber_of(request: web.Request) -> SubscriberId:
    """Return the subscriber that a request is about. Raises: InvalidArgumentError - it is no subscriber's name."""
    return as_subscriber(_name_of(request, "subscriber"))


def has_subscriber(request: web.Request) -> bool:
    """Say whether a request names a subscriber."""
    return not SUBSCRIBER.isdisjoint(request.query)


def hub_of(request: web.Request) -> HubInfo | None:
    """Return the incarnation of a hub that a request names as its target; None if it names none."""
    address = request.query.get("to")
    if (address is None) != ("epoch" not in request.query):
        raise BadRequestError("name a hub, and which start of it: to=HOST:PORT:SSLPORT&epoch=NUMBER")
    return None if address is None else HubInfo.at(address, epoch=number_of(request, "epoch"))


def version_of(request: web.Request) -> Version | None:
    """Return the version that a record must have; None if any will do."""
    text = request.query.get("version")
    try:
        return None if text is None else Version.parse(text)
    except ValueError as exc:
        raise BadRequestError(f"version is {text!r}, which is no version: {exc}") from exc


def number_of(request: web.Request, name: str) -> int:
    """Return a parameter that is a number from 0 on, such as the id of a message or an epoch."""
    text = request.query.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= _NUMBER_MAX):
        raise BadRequestError(f"{name} is {text!r}; it must be a number from 0 to {_NUMBER_MAX}")
    return int(text)


def ledgers_of(request: web.Request) -> list[int]:
    """Return the ids of the ledgers that a request is about."""
    texts = request.query.get("ledgers", "").split(",")
    if len(texts) > _LEDGERS_MAX or not all(text.isascii() and text.isdigit() and len(text) <= 19 for text in texts):
        raise BadRequestError(f"ledgers must be the ids of 1 to {_LEDGERS_MAX} ledgers, with commas between")
    return list(map(int, texts))


def limit_of(request: web.Request) -> int:
    """Return the number of rows that a request asks for."""
    text = request.query.get("limit", str(_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _LIMIT_MAX):
        raise BadRequestError(f"limit is {text!r}; it must be from 1 to {_LIMIT_MAX}")
    return int(text)


def page_of(request: web.Request) -> tuple[int, bytes]:
    """Return the number of rows that a request asks for, and the name after which they begin."""
    text, token = request.query.get("start_after"), request.query.get("token")
    if text is not None and token is not None:
        raise BadRequestError("give start_after or token, not both")
    try:
        return limit_of(request), start_of(token) if token is not None else parse_name(text or "")
    except ValueError as exc:
        raise BadRequestError(str(exc)) from exc


def _name_of(request: web.Request, noun: str) -> bytes:
    text, encoded = request.query.get(noun), request.query.get(f"{noun}_base64")
    if (text is None) == (encoded is None):
        raise BadRequestError(f"name the {noun}: {request.path}?{noun}=NAME, or {noun}_base64= for any bytes")
    if text is not None:
        return parse_name(text)
    try:
        return base64.b64decode(encoded or "", validate=True)
    except ValueError as exc:
        raise BadRequestError(f"{noun}_base64 is not base64: {exc}") from exc
