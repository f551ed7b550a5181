"""Tokens (JWT, RFC 7519): who their issuer says that a client is, until when."""

import json
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import jwt

from hedwig.access import Principal
from hedwig.clock import Clock
from hedwig.errors import ConfigurationError, InvalidArgumentError, NotAuthenticatedError, ServiceDownError
from hedwig.hub.options.access_options import AccessOptions

__all__ = ["Tokens"]

_log = logging.getLogger(__name__)

_ALGORITHMS: Final = frozenset(
    {"EdDSA", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
)
"""Signatures whose keys only verify. With others, whoever can verify a token could make one."""
_REFRESH_S: Final = 300.0
"""How old keys from a URL may be."""
_UNKNOWN_REFRESH_S: Final = 10.0
"""How old they may be once a token names a key that is not among them."""
_FETCH_S: Final = 10.0
_BYTES_MAX: Final = 1 << 20
_TEXT_CHARACTERS_MAX: Final = 200


class Tokens:
    """Checks tokens with the keys of their issuer, from a file or a URL with a JWK set (RFC 7517)."""

    def __init__(self, options: AccessOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._is_file = not urlsplit(options.token_keys).scheme
        self._seen: object = None
        self._read_at: float | None = None
        self._is_missing = False
        """Whether a token has named a key that is not known."""

    def principal(self, token: str) -> tuple[Principal, float]:
        """Return whom a token is for, and when it ends, in seconds since 1970.

        Raises: NotAuthenticatedError; ServiceDownError - its key may become known.
        """
        try:
            name = jwt.get_unverified_header(token).get("kid")
            key = self._key(name)
            options = self._options
            claims = jwt.decode(
                token,
                key,
                [str(key.algorithm_name)],
                audience=options.token_audience,
                issuer=options.token_issuer or None,
                options={"require": ["exp", "aud", options.token_user]},
            )
        except jwt.PyJWTError as exc:
            # The text may repeat what the client has sent, which need not be what an answer can carry.
            raise NotAuthenticatedError(f"not authenticated: the token does not count: {_plain(exc)}") from exc
        groups = claims.get(options.token_groups, ())
        try:
            if isinstance(groups, str):
                groups = groups.split()
            return Principal(str(claims[options.token_user]), frozenset(map(str, groups))), float(claims["exp"])
        except (InvalidArgumentError, TypeError, ValueError) as exc:
            raise NotAuthenticatedError(f"not authenticated: the token is for nobody: {_plain(exc)}") from exc

    def _key(self, name: object) -> jwt.PyJWK:
        key = self._keys.get(name if isinstance(name, str) else None)
        if key is None:
            self._is_missing = True
            raise ServiceDownError("the key of the token is not known yet; try again")
        return key

    async def look(self) -> None:
        """Read the keys if they may have changed. If that fails, go on with those that are known, and say so."""
        try:
            data = self._changed_file() if self._is_file else await self._newer_answer()
            if data is not None:
                self._keys, self._is_missing = _keys_in(data), False
                _log.info("%d keys of tokens are read from %s", len(self._keys), self._options.token_keys)
        except (ConfigurationError, OSError, aiohttp.ClientError) as exc:
            _log.error("the keys of tokens cannot be read from %s: %r", self._options.token_keys, exc)

    def _changed_file(self) -> bytes | None:
        path = Path(self._options.token_keys)
        found = path.stat()
        state = found.st_mtime_ns, found.st_ino
        if state == self._seen:
            return None
        data = path.read_bytes()
        self._seen = state
        return data

    async def _newer_answer(self) -> bytes | None:
        now = self._clock.monotonic()
        age_max_s = _UNKNOWN_REFRESH_S if self._is_missing or not self._keys else _REFRESH_S
        if self._read_at is not None and now - self._read_at < age_max_s:
            return None
        self._read_at = now
        return await _fetch(self._options.token_keys)


async def _fetch(url: str) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_FETCH_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, allow_redirects=False, ssl=ssl.create_default_context()) as answer,
    ):
        if answer.status != 200:
            raise ConfigurationError(f"it answers {answer.status}")
        data = await answer.content.read(_BYTES_MAX + 1)
        while len(data) <= _BYTES_MAX and (more := await answer.content.read(_BYTES_MAX + 1 - len(data))):
            data += more
    return data


def _plain(error: Exception) -> str:
    text = str(error).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}…"


def _keys_in(data: bytes) -> Mapping[str | None, jwt.PyJWK]:
    """Return the keys of a JWK set that can verify. Raises: ConfigurationError - it is none, or has none."""
    if len(data) > _BYTES_MAX:
        raise ConfigurationError(f"it has more than {_BYTES_MAX} bytes")
    try:
        content: Any = json.loads(data)
        found = jwt.PyJWKSet.from_dict(content).keys
    except (ValueError, AttributeError, TypeError, KeyError, jwt.PyJWTError) as exc:
        raise ConfigurationError(f"it is no JWK set: {exc}") from exc
    usable = [key for key in found if key.algorithm_name in _ALGORITHMS]
    keys: dict[str | None, jwt.PyJWK] = {key.key_id: key for key in usable if isinstance(key.key_id, str)}
    if len(usable) == 1:
        keys[None] = usable[0]  # Tokens need not name the only one.
    if not keys:
        raise ConfigurationError("it has no key that verifies signatures")
    return keys
