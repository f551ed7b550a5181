"""The routes of the admin endpoint about topics and subscriptions: views and actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from hedwig.access import Action
from hedwig.errors import (
    BadVersionError,
    ClientNotSubscribedError,
    NoRecordError,
    TopicBusyError,
)
from hedwig.hub.admin.http.errors import BadRequestError, ConflictError, NotFoundError
from hedwig.hub.admin.http.operators import operator_of
from hedwig.hub.admin.http.parameters import (
    HUB,
    PAGE,
    SUBSCRIBER,
    TOPIC,
    flag_of,
    has_subscriber,
    hub_of,
    limit_of,
    number_of,
    page_of,
    subscriber_of,
    topic_of,
    version_of,
)
from hedwig.hub.admin.http.route import Route, Scope, topic_in
from hedwig.hub.admin.http.server import json_response
from hedwig.hub.admin.message_page import message_page
from hedwig.hub.admin.moves import Moves
from hedwig.hub.admin.topic_deletion import delete_topic
from hedwig.hub.admin.topic_view import lag_of, lag_page, topic_page, topic_view
from hedwig.hub.subscriptions.operator_actions import Edge, OperatorActions
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import Topic
from hedwig.names import name_fields, show_name

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["TopicRoutes"]

_EDGES: Final = {edge.value: edge for edge in Edge}


class TopicRoutes:
    """The routes about topics. Only the owner of a topic can answer most of them."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._moves = Moves(hub)

    def routes(self) -> list[Route]:
        """Return the routes."""
        of_topic, operate = Scope.TOPIC, Action.OPERATE
        of_subscriber = TOPIC | SUBSCRIBER
        return [
            Route("GET", "/topics", self._topics, PAGE, scope=Scope.OPERATORS),
            Route("GET", "/topics/{name:.+}", self._topic, frozenset({"limit"}), scope=of_topic),
            Route("GET", "/lag", self._lag, PAGE | of_subscriber, scope=of_topic),
            Route("GET", "/messages", self._messages, TOPIC | {"from", "limit"}, Action.READ, of_topic),
            Route("GET", "/claim", self._would_claim, scope=Scope.OPERATORS),
            Route("POST", "/claim", self._claim, TOPIC | {"version"}, operate, of_topic),
            Route("POST", "/release", self._release, TOPIC | HUB | {"version"}, operate, of_topic),
            Route("POST", "/delete-topic", self._delete, TOPIC | {"version"}, operate, of_topic),
            Route("POST", "/seek", self._seek, of_subscriber | {"to", "force", "version"}, operate, of_topic),
            Route("POST", "/unsubscribe", self._unsubscribe, of_subscriber | {"force", "version"}, operate, of_topic),
        ]

    # ------------------------------------------------------------------------------------------------- looking

    async def _topics(self, request: web.Request) -> web.Response:
        limit, start_after = page_of(request)
        return json_response(await topic_page(self._hub, limit, start_after, operator_of(request).sees))

    async def _topic(self, request: web.Request) -> web.Response:
        topic = self._owned(topic_in(request))
        return json_response(topic_view(self._hub, topic, limit_of(request)))

    async def _lag(self, request: web.Request) -> web.Response:
        limit, start_after = page_of(request)
        topic = self._owned(topic_of(request))
        if not has_subscriber(request):
            return json_response(await lag_page(self._hub, topic, limit, start_after))
        with _explained_errors():
            return json_response(await lag_of(self._hub, topic, subscriber_of(request)))

    async def _messages(self, request: web.Request) -> web.Response:
        topic = self._owned(topic_of(request))
        first = number_of(request, "from") if "from" in request.query else 0
        page = await message_page(self._hub, topic, first, limit_of(request))
        return json_response({**name_fields(topic.name), **page})

    def _owned(self, name: Topic) -> OwnedTopic:
        topic = self._hub.topics.get(name)
        if topic is None:
            raise NotFoundError(
                f"this hub does not own topic '{show_name(name)}' now; it does once a client publishes or subscribes",
                reason="not owned",
            )
        return topic

    # ----------------------------------------------------------------------------------------------- ownership

    async def _would_claim(self, _: web.Request) -> web.Response:
        """Say whether this hub takes topics that are moved here. Operators ask before another hub gives one up."""
        self._moves.check_takes()
        me = self._hub.me
        return json_response({"takes": True, "address": me.address, "epoch": me.epoch})

    async def _claim(self, request: web.Request) -> web.Response:
        """Make this hub the owner of the topic."""
        topic = await self._moves.claim(topic_of(request), version_of(request))
        facts = {"owner": self._hub.me.address, "owner_version": str(topic.owner_version)}
        return json_response({**name_fields(topic.name), "claimed": True, **facts})

    async def _release(self, request: web.Request) -> web.Response:
        """Release the topic, or hand it over to the hub that the request names."""
        name, expected, target = topic_of(request), version_of(request), hub_of(request)
        if target is not None:
            is_named = await self._moves.hand_over(name, target, expected)
            return json_response({**name_fields(name), "released": True, "owner": target.address if is_named else None})
        self._moves.check_writes()
        topic = self._owned(name)
        if expected is not None and topic.owner_version != expected:
            raise ConflictError(
                f"the owner record of topic '{show_name(topic.name)}' is at version {topic.owner_version}, not "
                f"{expected}",
                reason="version",
                version=str(topic.owner_version),
            )
        await self._hub.topics.release(topic)
        return json_response({"topic": show_name(topic.name), "released": True})

    async def _delete(self, request: web.Request) -> web.Response:
        """Delete the last record of a topic, and the ledgers on this hub's disk that it names."""
        name, version = topic_of(request), version_of(request)
        if self._hub.options.is_clustered:
            raise BadRequestError(
                "this hub's ledgers are on bookies: delete the records with hedwig-admin topic delete --offline, and "
                "the ledgers with hedwig-admin ledger delete-orphans"
            )
        if version is None:
            raise BadRequestError("say which version of the topic's persistence record: version=")
        self._moves.check_writes()
        try:
            ranges = await delete_topic(self._hub, name, version)
        except TopicBusyError as exc:
            raise ConflictError(str(exc), reason="owned") from exc
        except NoRecordError as exc:
            raise NotFoundError(str(exc), reason="no topic") from exc
        except BadVersionError as exc:
            raise ConflictError(str(exc), reason="version", version=str(exc.current_version)) from exc
        return json_response({**name_fields(name), "deleted": True, "ledgers": len(ranges.ranges)})

    # ------------------------------------------------------------------------------------------- subscriptions

    async def _seek(self, request: web.Request) -> web.Response:
        topic, subscriber = self._owned(topic_of(request)), subscriber_of(request)
        to = _EDGES.get(request.query.get("to", "")) or number_of(request, "to")
        with _explained_errors():
            sought = await self._interventions().seek(
                topic, subscriber, to, force=flag_of(request, "force"), expected=version_of(request)
            )
        return json_response(
            {
                **name_fields(topic.name, subscriber),
                "was": sought.was,
                "consumed": sought.consumed,
                "next_id": sought.next_id,
                "last_id": sought.last_id,
                "detached": sought.detached,
                "version": str(sought.version),
            }
        )

    async def _unsubscribe(self, request: web.Request) -> web.Response:
        topic, subscriber = self._owned(topic_of(request)), subscriber_of(request)
        with _explained_errors():
            deleted = await self._interventions().delete(
                topic, subscriber, force=flag_of(request, "force"), expected=version_of(request)
            )
        return json_response({**name_fields(topic.name, subscriber), "deleted": True, "version": str(deleted.version)})

    def _interventions(self) -> OperatorActions:
        incarnation = self._hub.incarnation
        return OperatorActions(incarnation.subscriptions, incarnation.subscribing, incarnation.backlogs)


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Answer errors about one subscription with facts for programs."""
    try:
        yield
    except TopicBusyError as exc:
        raise ConflictError(f"{exc}; force=on takes it from there", reason="attached") from exc
    except (ClientNotSubscribedError, NoRecordError) as exc:
        raise NotFoundError(str(exc), reason="not subscribed") from exc
    except BadVersionError as exc:
        state = exc.current.value.state if exc.current is not None else None
        raise ConflictError(
            str(exc),
            reason="version",
            version=str(exc.current_version),
            consumed=state.consumed.local if state is not None else None,
        ) from exc
