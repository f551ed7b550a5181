"""OAUTHBEARER (RFC 7628): the one step by which a client shows its token."""

import re
from typing import Final

from hedwig.errors import InvalidArgumentError

__all__ = ["step_with", "token_in"]

_STEP: Final = re.compile(
    rb"n,(?:a=[^,]*)?,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?auth=Bearer ([A-Za-z0-9._~+/=-]+)\x01", re.ASCII
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)


def step_with(token: str) -> bytes:
    """Return the step of a client. Raises: InvalidArgumentError - the token has characters that none has."""
    if not _TOKEN.fullmatch(token):
        raise InvalidArgumentError("a token has letters, digits and ._~+/=- only")
    return b"n,,\x01auth=Bearer %s\x01\x01" % token.encode()


def token_in(step: bytes) -> str:
    """Return the token that a client has shown. Raises: InvalidArgumentError - its step makes no sense."""
    found = _STEP.match(step)
    if found is None:
        raise InvalidArgumentError("this is no step of OAUTHBEARER")
    return found[1].decode()
