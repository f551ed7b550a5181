"""Logins by Kerberos or a token, with which a connection begins where HBase asks who its user is.

    to the server     "HBas", 00, 51; then tokens
    a token           its length in four bytes, and its bytes
    from the server   for each token but the last: 00000000 and a token; or, if it refuses, 00000001 and two texts of
                      that form, the class of a Java exception and what it says

This is SASL with the mechanism GSSAPI (RFC 4752), or with 52 in place of 51, DIGEST-MD5 (`tokens.py`). Frames follow as
they are: whoever wants them encrypted has TLS.
"""

import asyncio
import os
import struct
from typing import Any, Final

from hedwig.extras import needed
from hedwig.metadata.hbase.native.wire.codec import preamble
from hedwig.metadata.hbase.native.wire.tokens import Digest, Token
from hedwig.store_access import KerberosLogin

__all__ = ["LoginAnswers", "log_in"]

_KERBEROS: Final = b"\x51"
_TOKEN: Final = b"\x52"
_LENGTH: Final = struct.Struct(">i")
_DONE: Final = 0
_NO_LOGIN: Final = -88
"""In place of a length: the server asks nobody who it is."""
_TOKEN_BYTES_MAX: Final = 1 << 16
_ANSWER_BYTES_MAX: Final = 3 * _TOKEN_BYTES_MAX
_HOST: Final = "_HOST"
_NO_LAYER: Final = 1
"""The bit for frames as they are, in what a server offers."""
_CHOICE: Final = b"\x01\0\0\0"
_CONFIG: Final = "KRB5_CONFIG"
_TICKETS: Final = "MEMORY:hedwig-hbase"
"""Where the tickets of a keytab are kept, in this process."""


class LoginAnswers(asyncio.Protocol):
    """What the server sends until the client is logged in."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._came = asyncio.Event()
        self._why: str | None = None

    @property
    def are_over(self) -> bool:
        """Whether the connection has not ended, and nothing follows."""
        return self._why is None and not self._data

    def data_received(self, data: bytes) -> None:
        if len(self._data) <= _ANSWER_BYTES_MAX:  # Else nobody reads this any more, or it is no answer.
            self._data += data
        self._came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._why = f"the connection ended ({exc or 'closed by the server'})"
        self._came.set()

    async def token(self) -> bytes:
        """Return the next token. Raises: OSError - the server refuses the login, or the connection ended."""
        status, length = await self._number(), await self._number()
        if status == _DONE and length == _NO_LOGIN:
            raise PermissionError("the server asks nobody for a login by Kerberos, and could be any other one")
        text = await self._bytes(length)
        if status != _DONE:
            said = await self._bytes(await self._number())
            name = text.decode(errors="replace").rpartition(".")[2]
            raise PermissionError(f"the server refuses the login: {name}: {said.decode(errors='replace')}")
        return text

    async def _number(self) -> int:
        (number,) = _LENGTH.unpack(await self._bytes(_LENGTH.size))
        return int(number)

    async def _bytes(self, count: int) -> bytes:
        if not 0 <= count <= _TOKEN_BYTES_MAX:
            raise PermissionError(f"the server sends no login: {count} bytes follow")
        while len(self._data) < count:
            if self._why is not None:
                raise PermissionError(f"the login ended: {self._why}")
            self._came.clear()
            await self._came.wait()
        data = bytes(self._data[:count])
        del self._data[:count]
        return data


async def log_in(transport: asyncio.Transport, answers: LoginAnswers, login: KerberosLogin | Token, host: str) -> None:
    """Log in on a new connection to the server `host`.

    Raises: OSError - there is no ticket, or the server refuses it; MissingExtraError.
    """
    if isinstance(login, KerberosLogin):
        await _by_kerberos(transport, answers, login, host)
    else:
        await _by_token(transport, answers, login)


async def _by_token(transport: asyncio.Transport, answers: LoginAnswers, token: Token) -> None:
    digest = Digest(token)
    transport.write(preamble(_TOKEN) + _LENGTH.pack(0))
    response = digest.answer(await answers.token())
    transport.write(_LENGTH.pack(len(response)) + response)
    digest.check(await answers.token())


async def _by_kerberos(transport: asyncio.Transport, answers: LoginAnswers, login: KerberosLogin, host: str) -> None:
    with needed("kerberos", "logins by Kerberos need"):
        import gssapi

    def send(token: bytes) -> None:
        transport.write(_LENGTH.pack(len(token)) + token)

    transport.write(preamble(_KERBEROS))
    try:
        # In a thread: the first step may ask the servers of Kerberos for tickets.
        context = await asyncio.to_thread(_context, gssapi, login, host)
        token: bytes | None = await asyncio.to_thread(context.step)
        while True:
            send(token or b"")
            answer = await answers.token()
            if context.complete:
                break
            token = await asyncio.to_thread(context.step, answer)
        offered = context.unwrap(answer).message
        if not offered or not offered[0] & _NO_LAYER:
            raise PermissionError("the server wants Kerberos to protect frames, which is not built; let TLS do that")
        send(context.wrap(_CHOICE, False).message)
    except gssapi.exceptions.GSSError as exc:
        raise PermissionError(f"no login by Kerberos: {exc}") from exc


def _context(gssapi: Any, login: KerberosLogin, host: str) -> Any:
    if login.config is not None:
        os.environ[_CONFIG] = str(login.config)  # The library has no other way to be told.
    principal = gssapi.NameType.kerberos_principal
    credentials = None
    if login.keytab is not None:
        # The library fetches tickets with the keytab, and new ones when these end.
        store = {"client_keytab": str(login.keytab), "ccache": _TICKETS}
        name = gssapi.Name(login.client, principal)
        credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
    servers = gssapi.Name(login.servers.replace(_HOST, host), principal)
    return gssapi.SecurityContext(
        name=servers, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags
    )
