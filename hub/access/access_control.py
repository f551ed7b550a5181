"""Access control: reads the rules again and again, and asks them about each request of each connection."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet, WeakValueDictionary

from hedwig.access import Action, CertificateNames, Limit, Principal, RuleBook, TopicRights
from hedwig.clock import Clock
from hedwig.errors import InvalidArgumentError, MetadataError, NotPermittedError, QuotaExceededError, ServiceDownError
from hedwig.hub.access.audit import Audit
from hedwig.hub.access.caller import Caller
from hedwig.hub.access.counts import Making, most_of
from hedwig.hub.access.quotas import Connections, Quotas
from hedwig.hub.options.access_options import AccessMode, AccessOptions
from hedwig.metadata.access.count_records import Counted
from hedwig.metadata.access.rule_records import KeptRules, RuleRecords
from hedwig.names import show_name
from hedwig.wire import CloseSubscription, Consume, Publish, Request, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from hedwig.hub.access.logins import Logins

__all__ = ["AccessControl"]

_log = logging.getLogger(__name__)

_OVER_S: Final = 10.0
"""How long a connection may wait that is one too many."""
_TICK_S: Final = 0.001
_WHOLE_S: Final = 60.0
"""How often all rules are read in any case: a writer may have died before it counted its change."""
_PUBLISH: Final = int(Action.PUBLISH)
_CREATE: Final = int(Action.CREATE)
_SUBSCRIBE: Final = int(Action.SUBSCRIBE)
_UNSUBSCRIBE: Final = int(Action.UNSUBSCRIBE)
_VIEW: Final = int(Action.VIEW)
_NONE: Final = TopicRights()


class _Asking(Protocol):
    """A connection, as access control sees it."""

    peer: str
    caller: Caller | None


class _Connected(_Asking, Protocol):
    """A connection that counts, or is one too many (`why_over`)."""

    counted_as: tuple[str, ...]
    why_over: QuotaExceededError | None

    def close(self) -> None: ...


class AccessControl:
    """What the rules say, as this hub has read them last. Errors of `check`: NotPermittedError, ServiceDownError.

    Before the rules were read for the first time, and once that is too long ago, nothing is permitted.
    """

    def __init__(
        self,
        options: AccessOptions,
        records: RuleRecords,
        clock: Clock,
        audit: Audit | None,
        anonymous: Mapping[str, str] | None = None,
        logins: "Logins | None" = None,
    ) -> None:
        """`anonymous` are the users of named listeners that clients are who do not say who they are; "" for nobody.

        `logins`: None if no listener takes any.
        """
        self.logins = logins
        self._options = options
        self._records = records
        self._clock = clock
        self.audit = audit
        users = {"": options.anonymous, **(anonymous or {})}
        self._anonymous = {
            name: Caller(Principal(user), is_named=False) if user else None for name, user in users.items()
        }
        """Who comes by which listener without saying who it is."""
        self._certificate_names = CertificateNames(options.certificate_names)
        self._callers: WeakValueDictionary[Principal, Caller] = WeakValueDictionary()
        """Those who have shown a certificate, while they are connected."""
        self._let: WeakSet[Caller] = WeakSet()
        """Those of whom publishes to some topics pass without a question."""
        self._rules: Mapping[str, KeptRules] = {}
        self.book = RuleBook({})
        """The rules. It is another object whenever they have changed."""
        self._changes = -1
        self._has_news = False
        """Whether rules or users were read that nobody was told of."""
        self._whole_at = 0.0
        self._asked_at: float | None = None
        """When the store has answered last, on the monotonic clock."""
        self._sure_until = -math.inf
        """Until when the hub goes by these rules, on that clock."""
        self._ageing: asyncio.TimerHandle | None = None
        self.refuses = options.mode == AccessMode.RULES
        """Whether the rules are kept, and not only asked."""
        self.refused = 0
        """How many requests the rules have refused, or would have."""
        self.over_limits = 0
        """How many messages were over a limit."""
        self.connections_over_limits = 0
        self.makings_over_limits = 0
        """How many topics and subscriptions were refused, since there are enough."""
        self._quotas = Quotas(clock)
        self._connections = Connections()

    @property
    def age_s(self) -> float | None:
        """How long ago the hub knew surely that these are the rules; None if it has never read them."""
        return None if self._asked_at is None else self._clock.monotonic() - self._asked_at

    def state(self) -> Mapping[str, Any]:
        """Return what the hub knows of rules and users, for operators."""
        age_s = self.age_s
        known: dict[str, Any] = {
            "version": self._changes if age_s is not None else None,
            "rules": sum(len(kept.value) for kept in self._rules.values()),
            "age_s": None if age_s is None else round(age_s, 3),
            "refused": self.refused,
            "over_limits": self.over_limits,
        }
        if self.logins is not None:
            known |= {"users": self.logins.users, "logins": self.logins.done, "failed_logins": self.logins.failed}
        return known

    def caller(self, peer: str, certificate: Mapping[str, Any] | None, listener: str = "") -> Caller | None:
        """Return who comes on a connection, with a certificate or without; None if such a client may nothing.

        `listener` is the name of that by which it has come. Source of the certificate: ssl.SSLSocket.getpeercert.
        """
        if certificate is None:
            return self._anonymous[listener]
        try:
            principal = self._certificate_names.principal(certificate)
        except InvalidArgumentError as exc:
            _log.info("%s: its certificate is for nobody: %s", peer, exc)
            return None
        if principal is None:
            _log.info("%s: no rule says whom its certificate is for", peer)
            return None
        caller = self._callers.get(principal)
        if caller is None:
            caller = self._callers[principal] = Caller(principal)
        return caller

    def count_connection(self, connected: _Connected) -> None:
        """Count a connection for whom it is now, unless that is one too many.

        Then its requests are refused with when to come again, and it is closed after a while.
        """
        was_over, connected.why_over = connected.why_over, None
        caller = connected.caller
        if caller is None:
            self._connections.leave(connected)
            return
        try:
            self._connections.take(connected, caller.principal, caller.rights(b"", self.book).connection_limits)
        except QuotaExceededError as exc:
            if was_over is None:
                self.connections_over_limits += 1
                _log.info("%s: %s", connected.peer, exc)
                if self.audit is not None:
                    self.audit.refused(connected.peer, str(caller.principal), "connect over a limit", None)
            if self.refuses:
                connected.why_over = exc
                if was_over is None:
                    asyncio.get_running_loop().call_later(_OVER_S, self._close_if_over, connected)

    def _close_if_over(self, connected: _Connected) -> None:
        if connected.why_over is not None:
            self.count_connection(connected)
            if connected.why_over is not None:
                connected.close()

    def recount_connection(self, connected: _Connected) -> None:
        """Count a connection for the groups that its user is in now. If it was counted, it stays."""
        if connected.counted_as and connected.caller is not None:
            self._connections.take(connected, connected.caller.principal, ())

    def forget_connection(self, connected: _Connected) -> None:
        """Count a connection no longer that is over, nor let it wait for its turn."""
        connected.why_over = None
        self._connections.leave(connected)

    async def refresh(self) -> bool:
        """Read rules and users if they may have changed; return whether they have. Raises: MetadataError."""
        asked_at = self._clock.monotonic()
        changes = await self._records.changes()
        if changes != self._changes or asked_at - self._whole_at >= _WHOLE_S:
            rules = await self._records.read()
            if rules is not self._rules:
                self._has_news = True
                self._ask_again()
                self._rules = rules
                self.book = RuleBook({who: kept.value for who, kept in rules.items()}, self.book)
                if self.audit is not None:
                    self.audit.write("rules", changes=changes, rules=sum(len(kept.value) for kept in rules.values()))
            if self.logins is not None and await self.logins.refresh():
                self._has_news = True
            # Changes after the count was read are read again, once they are counted.
            self._changes, self._whole_at = changes, asked_at
        self._asked_at = asked_at
        if self._options.stale_max_s:
            self._sure_until = asked_at + self._options.stale_max_s
            self._age()
        else:
            self._sure_until = math.inf
        has_news, self._has_news = self._has_news, False
        return has_news

    async def look(self, on_change: Callable[[], None]) -> None:
        """Read the rules if they may have changed, and call `on_change` if they have. An error is logged only."""
        try:
            if await self.refresh():
                on_change()
        except (MetadataError, TimeoutError) as exc:
            if self._has_news:  # The rules were read, and the users were not. What the rules end does not wait.
                self._has_news = False
                on_change()
            age_s = self.age_s
            known = "were never read" if age_s is None else f"are those of {age_s:.0f} s ago"
            _log.warning("the rules of access control cannot be read, and %s: %s", known, exc)

    # ------------------------------------------------------------------------------------------------- questions

    def check(self, asking: _Connected, request: Request, *, is_counted: bool = False) -> None:
        """Raise NotPermittedError unless the rules allow a request; ServiceDownError if they are not known.

        Raise QuotaExceededError if a limit does not allow it now.

        Args: is_counted - it was asked about before, so limits have counted what it publishes.
        """
        if asking.why_over is not None:
            self.count_connection(asking)  # Another one may have ended.
            if asking.why_over is not None:
                raise asking.why_over
        action, topic = request.action, request.topic
        match action:
            case Publish():
                rights = self._rights(asking, topic)
                if not rights.may(_PUBLISH):
                    self._refuse(asking, "publish", topic)
                elif not rights.limits:
                    self._let_publish(asking, topic)
                elif not is_counted:
                    self._count(asking, rights, topic, len(action.message.body))
            case Subscribe(subscriber=subscriber) | Consume(subscriber=subscriber) | CloseSubscription(subscriber):
                self.check_subscriber(asking, topic, subscriber)
            case Unsubscribe(subscriber):
                if not self._rights(asking, topic).may_as(_UNSUBSCRIBE, subscriber):
                    self._refuse(asking, "unsubscribe", topic, subscriber)

    def _let_publish(self, asking: _Asking, topic: bytes) -> None:
        """Let the next publishes to a topic pass without a question, until the rules change or are too old."""
        caller = asking.caller
        assert caller is not None, "nobody has no rights"
        if not caller.publishes:
            self._let.add(caller)
        caller.let_publish(topic)

    def _age(self) -> None:
        """Let publishes pass without a question until the rules are too old, and not a moment longer."""
        if self._ageing is not None:
            self._ageing.cancel()
            self._ageing = None
        # A timer may fire early. What is let pass after the last one would pass for ever.
        if (left_s := self._sure_until - self._clock.monotonic()) >= 0:
            self._ageing = asyncio.get_running_loop().call_later(left_s + _TICK_S, self._age)
        else:
            self._ask_again()

    def _ask_again(self) -> None:
        """Let no publish pass any more without a question."""
        for caller in self._let:
            caller.publishes.clear()
        self._let.clear()

    def check_subscriber(self, asking: _Asking, topic: bytes, subscriber: bytes) -> None:
        """Raise as `check` unless a connection may act as that subscriber."""
        if not self._rights(asking, topic).may_as(_SUBSCRIBE, subscriber):
            self._refuse(asking, "subscribe", topic, subscriber)

    def may_serve(self, asking: _Asking, topic: bytes, subscriber: bytes) -> bool:
        """Return whether an attached subscriber may stay, by the rules that the hub has, however old they are."""
        if not self.refuses:
            return True
        caller = asking.caller
        return caller is not None and caller.rights(topic, self.book).may_as(_SUBSCRIBE, subscriber)

    def backlog_limit(self, asking: _Asking, topic: bytes) -> Limit | None:
        """Return what bounds the backlog of a topic for a publisher, None if nothing does."""
        caller = asking.caller
        limits = () if caller is None else caller.rights(topic, self.book).backlog_limits
        return min(limits, key=lambda limit: limit.backlog_bytes_max or 0) if limits else None

    def count_over_limit(self, asking: _Asking, topic: bytes) -> None:
        """Count a message that is over a limit."""
        self.over_limits += 1
        if self.audit is not None and asking.caller is not None:
            self.audit.refused(asking.peer, str(asking.caller.principal), "publish over a limit", topic)

    def may_create(self, asking: _Asking, topic: bytes) -> bool:
        """Return whether a connection may make a topic that does not exist."""
        if not self.refuses:
            return True
        caller = asking.caller
        return caller is not None and caller.rights(topic, self.book).may(_CREATE)

    def making(self, asking: _Asking, topic: bytes, counted: Counted) -> Making | None:
        """Return what says whether a connection may make the topic, or a subscription of it; None if no limit does."""
        caller = asking.caller
        if not self.refuses or caller is None:
            return None
        limits = caller.rights(topic, self.book).count_limits
        if limits:
            limits = tuple(limit for limit in limits if most_of(limit, counted) is not None)
        if not limits:
            return None
        return Making(caller.principal, counted, limits, partial(self._made_too_much, asking, topic))

    def _made_too_much(self, asking: _Asking, topic: bytes) -> None:
        self.makings_over_limits += 1
        if self.audit is not None and asking.caller is not None:
            self.audit.refused(asking.peer, str(asking.caller.principal), "create over a limit", topic)

    def check_operator(self, asking: _Asking, action: Action, topic: bytes) -> bool:
        """Return whether the rules allow an action at the admin endpoint, and count it if not.

        An empty `topic` stands for the hub: only rules on all topics speak of it. Raises: ServiceDownError.
        """
        if self._rights(asking, topic).may(int(action)):
            return True
        self.refused += 1
        if self.audit is not None:
            who = asking.caller.principal if asking.caller is not None else "nobody"
            self.audit.refused(asking.peer, str(who), action.spelled, topic or None)
        return False

    def may_view(self, caller: Caller, topic: bytes) -> bool:
        """Return whether a user may know of a topic, by the rules that the hub has, however old they are."""
        return caller.rights(topic, self.book, is_kept=False).may(_VIEW)

    @property
    def why_unknown(self) -> str | None:
        """Why the hub refuses everything: it does not know the rules, or not surely enough. None if it does."""
        if not self.refuses:
            return None
        age_s = self.age_s
        if age_s is None:
            return "this hub has not read the rules of access control yet"
        if 0 < self._options.stale_max_s < age_s:
            return f"the rules of access control cannot be read; the hub knew them {age_s:.0f} s ago"
        return None

    def _rights(self, asking: _Asking, topic: bytes) -> TopicRights:
        if self._clock.monotonic() > self._sure_until and (why := self.why_unknown) is not None:
            raise ServiceDownError(f"{why}; try again")
        caller = asking.caller
        return _NONE if caller is None else caller.rights(topic, self.book)

    def _count(self, asking: _Asking, rights: TopicRights, topic: bytes, size: int) -> None:
        """Raise QuotaExceededError if a message is more than its publisher may publish now."""
        caller = asking.caller
        assert caller is not None, "nobody has no rights"
        try:
            self._quotas.take(rights.limits, caller.principal, size)
        except QuotaExceededError:
            self.count_over_limit(asking, topic)
            if self.refuses:
                raise

    def _refuse(self, asking: _Asking, what: str, topic: bytes, subscriber: bytes | None = None) -> None:
        self.refused += 1
        said = "" if subscriber is None else f" as '{show_name(subscriber)}'"
        who = asking.caller.principal if asking.caller is not None else "nobody"
        text = f"not permitted: {what} to '{show_name(topic)}'{said} by {who}"
        if self.audit is not None:
            self.audit.refused(asking.peer, str(who), what, topic, subscriber)
        if self.refuses:
            raise NotPermittedError(text)
        _log.info("%s: the rules would refuse it: %s", asking.peer, text)
