"""Logins: the exchanges by which clients say who they are, one at a time on each connection."""

import asyncio
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol
from weakref import WeakValueDictionary

from hedwig.access import Principal
from hedwig.access.mechanisms import Mechanism
from hedwig.access.oauthbearer import token_in
from hedwig.access.scram import ServerExchange, WrongPasswordError, pretended, stored_key_of
from hedwig.access.users import User, Verifier
from hedwig.clock import Clock
from hedwig.errors import InvalidArgumentError, NotAuthenticatedError, ServiceDownError
from hedwig.hub.access.audit import Audit
from hedwig.hub.access.caller import Caller
from hedwig.hub.access.newcomers import Newcomer, Newcomers
from hedwig.hub.access.tokens import Tokens
from hedwig.metadata.access.records import Kept
from hedwig.metadata.access.user_records import UserRecords
from hedwig.names import show_name
from hedwig.wire import Authenticate, Authentication

__all__ = ["Asked", "Logins", "Peer"]

_log = logging.getLogger(__name__)

_FAILURES_FREE: Final = 5
"""How many logins from one address may fail before the next ones wait."""
_PAUSE_MIN_S: Final = 0.25
_PAUSE_MAX_S: Final = 8.0
_FORGOTTEN_S: Final = 60.0
"""How long after its last failure an address counts as one from which none has failed."""
_PEPPER_BYTES: Final = 32
_RIGHT_MAX: Final = 1000
"""For how many passwords the hub remembers that they were right."""
_ADDRESSES_MAX: Final = 10_000
"""Of how many addresses the hub knows that logins failed."""
_NO_TLS: Final = b"no TLS"
"""To what no client binds a login."""
_WRONG: Final = "not authenticated: there is no such user, or the password is another"


class Peer(Protocol):
    """Where somebody says who he is."""

    peer: str

    @property
    def peer_host(self) -> str: ...
    @property
    def address(self) -> str | bytes: ...


class Asked(Newcomer, Peer, Protocol):
    """A connection, as a login sees it."""

    caller: Caller | None
    listener: str
    exchange: ServerExchange | None
    end_point: bytes | None
    """What the hub's end of its TLS connection is known by; None without TLS."""
    ends_at: float
    """When what it has shown ends, in seconds since 1970."""


class Logins:
    """Knows the users as this hub has read them last, and takes the steps of clients."""

    def __init__(
        self,
        offered: Mapping[str, Collection[str]],
        records: UserRecords,
        newcomers: Newcomers,
        login_s: float,
        tokens: Tokens | None,
        clock: Clock,
        audit: Audit | None,
    ) -> None:
        """`offered` are the mechanisms for clients of each listener, by its name; "" for the hub's own ports.

        `login_s` is how long a login may take.
        """
        self._login_s = login_s
        self._offered = offered
        self._records = records
        self.newcomers = newcomers
        self.tokens = tokens
        """What checks tokens; None if no listener takes any."""
        self._clock = clock
        self._audit = audit
        self._users: Mapping[str, Kept[User]] = {}
        self._pepper = secrets.token_bytes(_PEPPER_BYTES)
        """That of the deployment, once it has one. Whoever adds the first user makes it."""
        self._has_pepper = False
        self._is_read = False
        """Whether the users were ever read."""
        self._of_tokens: WeakValueDictionary[Principal, Caller] = WeakValueDictionary()
        """Those who have shown a token, while they are connected."""
        self._callers: dict[str, Caller] = {}
        """Those of the users that have logged in since the users last changed."""
        self._remembers_by = secrets.token_bytes(_PEPPER_BYTES)
        self._right: dict[bytes, bytes] = {}
        """For passwords that were right, the stored key that they gave."""
        self._failures: OrderedDict[str | bytes, tuple[int, float]] = OrderedDict()
        """How many logins from an address have failed lately, and until when the next one waits."""
        self.done = 0
        """How many logins have succeeded."""
        self.failed = 0

    async def refresh(self) -> bool:
        """Read the users; return whether they have changed. Raises: MetadataError."""
        if not self._has_pepper and (pepper := await self._records.pepper()) is not None:
            self._pepper, self._has_pepper = pepper, True
        users = await self._records.read()
        self._is_read = True
        has_changed = users is not self._users
        if has_changed:
            self._users, self._callers = users, {}
        return has_changed

    def caller(self, name: str) -> Caller | None:
        """Return the user of that name, with the groups that it has now; None if there is none any more."""
        kept = self._users.get(f"user:{name}")
        if kept is None or not kept.value.verifiers:
            return None
        caller = self._callers.get(name)
        if caller is None:
            caller = self._callers[name] = Caller(Principal(name, kept.value.groups), has_logged_in=True)
        return caller

    @property
    def users(self) -> int:
        """How many users there are."""
        return sum(bool(kept.value.verifiers) for kept in self._users.values())

    def offers(self, listener: str) -> bool:
        """Say whether clients of a listener can log in."""
        return bool(self._offered.get(listener))

    def step(self, asked: Asked, step: Authenticate) -> Authentication:
        """Take a step of a client. The last one sets its caller.

        Raises: NotAuthenticatedError - the exchange failed; ServiceDownError - it may be tried later.
        """
        mechanisms = tuple(name for name in self._offered.get(asked.listener, ()) if _fits(name, asked))
        if not step.mechanism:
            return Authentication(mechanisms)
        exchange, asked.exchange = asked.exchange, None
        self._check_pause(asked)
        if not self._is_read:
            raise ServiceDownError("this hub has not read the users of access control yet; try again")
        try:
            if exchange is not None:
                if self._clock.monotonic() > exchange.latest:
                    raise ServiceDownError("the login took too long; begin another one")
                data = exchange.last(step.data)
                self._logged_in(asked, exchange.user)
                return Authentication(mechanisms, data)
            if step.mechanism not in mechanisms:
                raise NotAuthenticatedError(
                    f"not authenticated: this listener takes {', '.join(mechanisms) or 'nobody at his word'}, and not "
                    f"{show_name(step.mechanism.encode())}"
                )
            if step.mechanism == Mechanism.TOKEN:
                return Authentication(mechanisms, b"", self._take_token(asked, step.data))
            exchange = ServerExchange(step.mechanism, self._verifiers, _binding_of(asked, mechanisms))
            data = exchange.first(step.data)
        except WrongPasswordError:
            self._failed(asked, exchange.user if exchange is not None else "", "the password is wrong")
            raise NotAuthenticatedError(_WRONG) from None
        except InvalidArgumentError as exc:
            self._failed(asked, exchange.user if exchange is not None else "", str(exc))
            raise NotAuthenticatedError(f"not authenticated: {exc}") from exc
        exchange.latest = self._clock.monotonic() + self._login_s
        asked.exchange = exchange
        return Authentication(mechanisms, data)

    def _take_token(self, asked: Asked, data: bytes) -> int:
        """Log a client in with its token; return for how many milliseconds that counts."""
        caller, ends_at = self._of_token(asked, token_in(data))
        self._take(asked, caller)
        asked.ends_at = ends_at
        return max(0, int(1000 * (ends_at - self._clock.wall())))

    def _of_token(self, asked: Peer, token: str) -> tuple[Caller, float]:
        """Return whom a token is for, and until when: seconds since 1970. Raises: NotAuthenticatedError."""
        assert self.tokens is not None, "the options say so"
        try:
            principal, ends_at = self.tokens.principal(token)
        except NotAuthenticatedError as exc:
            self._failed(asked, "", str(exc))
            raise
        caller = self._of_tokens.get(principal)
        if caller is None:
            caller = self._of_tokens[principal] = Caller(principal)
        return caller, ends_at

    # ------------------------------------------------------------------------------------------ the admin endpoint

    @property
    def takes_passwords(self) -> bool:
        """Whether users have passwords: clients of some listener may log in with them."""
        return any(name != Mechanism.TOKEN for names in self._offered.values() for name in names)

    def check_token(self, asked: Peer, token: str) -> Caller:
        """Return whom a token is for that was shown with a request. Raises as `step`."""
        self._check_pause(asked)
        return self._of_token(asked, token)[0]

    async def check_password(self, asked: Peer, name: str, password: str) -> Caller:
        """Return the user of that name, whose password was shown with a request. Raises as `step`.

        The hub computes what clients of SCRAM compute themselves, in a thread, and remembers that it was right.
        """
        if not self._is_read:
            raise ServiceDownError("this hub has not read the users of access control yet; try again")
        shown = hmac.digest(self._remembers_by, f"{name}:{password}".encode("utf-8", "surrogatepass"), "sha256")
        remembered = self._right.get(shown)
        if remembered is None or not self._is_one(remembered, name):
            self._check_pause(asked)
            found = await asyncio.to_thread(stored_key_of, password, self._verifiers(name)[0])
            if found is None or not self._is_one(found, name):
                self._failed(asked, name, "the password is wrong")
                raise NotAuthenticatedError(_WRONG)
            if len(self._right) >= _RIGHT_MAX:
                self._right.clear()
            self._right[shown] = found
            self.done += 1
            if self._audit is not None:
                self._audit.write("login", peer=asked.peer, who=f"user:{name}")
        caller = self.caller(name)
        if caller is None:
            raise NotAuthenticatedError(_WRONG)
        return caller

    def _is_one(self, stored_key: bytes, name: str) -> bool:
        return any(each.stored_key == stored_key for each in self._verifiers(name))

    # ------------------------------------------------------------------------------------------------------ users

    def _verifiers(self, name: str) -> Sequence[Verifier]:
        kept = self._users.get(f"user:{name}")
        found = () if kept is None else kept.value.counting(self._clock.wall())
        # It is made for each name. So the time that a login takes tells nobody which users there are.
        none = pretended(name, self._pepper)
        return found or (none,)

    def _logged_in(self, asked: Asked, name: str) -> None:
        caller = self.caller(name)
        if caller is None:  # It was deleted amid the exchange, or is none: nobody knows the password of those.
            self._failed(asked, name, "there is no such user")
            raise NotAuthenticatedError(_WRONG)
        self._take(asked, caller)

    def _take(self, asked: Asked, caller: Caller) -> None:
        before, name = asked.caller, caller.principal.name
        if before is not None and before.is_named and before.principal.name != name:
            self._failed(asked, name, f"the connection is that of {before.principal}")
            raise NotAuthenticatedError(
                f"not authenticated: this connection is that of {before.principal}; open another one"
            )
        asked.caller = caller
        self.newcomers.remove(asked)
        self.done += 1
        if self._audit is not None:
            self._audit.write("login", peer=asked.peer, who=str(caller.principal))

    # ------------------------------------------------------------------------------------------------- failures

    def _check_pause(self, asked: Peer) -> None:
        """Raise ServiceDownError while logins from an address wait. Logins that succeed shorten that for nobody."""
        _, until = self._failures.get(asked.address, (0, 0.0))
        left_s = until - self._clock.monotonic()
        if left_s > 0:
            raise ServiceDownError(f"too many logins from {asked.peer_host} have failed; try again in {left_s:.1f} s")

    def _failed(self, asked: Peer, name: str, why: str) -> None:
        self.failed += 1
        address, now = asked.address, self._clock.monotonic()
        failures, until = self._failures.pop(address, (0, now))
        failures = 1 if now - until > _FORGOTTEN_S else failures + 1
        beyond = failures - _FAILURES_FREE
        pause_s = min(_PAUSE_MIN_S * 2.0 ** min(beyond, 10), _PAUSE_MAX_S) if beyond >= 0 else 0.0
        self._failures[address] = failures, now + pause_s
        if len(self._failures) > _ADDRESSES_MAX:
            self._failures.popitem(last=False)
        # Neither logs nor their counts keep what cannot be a user. It may be long, or different each time.
        who = f"user:{name}" if f"user:{name}" in self._users else "nobody"
        _log.info("%s: a login as %s failed: %s", asked.peer, who, why)
        if self._audit is not None:
            self._audit.refused(asked.peer, who, "login", None)


def _binding_of(asked: Asked, mechanisms: Collection[str]) -> bytes | None:
    """Return what a login on a connection is bound to; None if clients with TLS may go without.

    A client with TLS says that it could bind its login, and that it believes the hub could not. On a connection without
    TLS nobody says so but one who passes on what such a client has told him.
    """
    if asked.end_point is None:
        return _NO_TLS
    return asked.end_point if Mechanism.SCRAM_PLUS in mechanisms else None


def _fits(mechanism: str, asked: Asked) -> bool:
    """Say whether a connection is one on which clients may use a mechanism."""
    return mechanism == Mechanism.SCRAM or asked.end_point is not None
