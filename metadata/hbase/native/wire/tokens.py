"""Tokens of HBase: by one, a program logs in that has no key and no tickets of its own, until the token ends.

HBase gives a token to whoever has logged in by Kerberos, and takes it by the mechanism DIGEST-MD5 (RFC 2831). Nobody
need ask a server of Kerberos for that. So a job on many machines needs one file, which serves for some days.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.reasons import reason_of

__all__ = ["Digest", "Token"]

_URI: Final = "null/default"
"""What Java makes of a service without a protocol, on a server named `default`."""
_FIRST: Final = "00000001"
_QUALITY: Final = "auth"
_FIELD: Final = re.compile(r'([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,]*))')
_FILE_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Token:
    """What HBase gave: who it is for, until when, and which key signs it; and the secret that goes with that."""

    identifier: bytes
    password: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file that `text` was written to. Raises: ConfigurationError - it cannot be read, or has no token."""
        try:
            with path.open("rb") as file:
                content = json.loads(file.read(_FILE_BYTES_MAX))
            return cls(*(base64.b64decode(content[name], validate=True) for name in ("identifier", "password")))
        except OSError as exc:
            raise ConfigurationError(f"cannot read the token {path}: {reason_of(exc)}") from exc
        except (ValueError, KeyError, TypeError, binascii.Error):
            # What these say may be the secret.
            raise ConfigurationError(f"the file {path} has no token of HBase; make one with metadata token") from None

    @property
    def text(self) -> str:
        """Return the content of a file."""
        parts = {"identifier": self.identifier, "password": self.password}
        return json.dumps({name: base64.b64encode(part).decode() for name, part in parts.items()})


class Digest:
    """One login by a token."""

    def __init__(self, token: Token, cnonce: str = "") -> None:
        self._user = base64.b64encode(token.identifier)
        self._password = base64.b64encode(token.password)
        self._cnonce = cnonce or secrets.token_hex(16)
        self._expected = ""

    def answer(self, challenge: bytes) -> bytes:
        """Return what answers the challenge of a server. Raises: PermissionError - it is none."""
        fields = _fields(challenge)
        nonce, realm = fields.get("nonce", ""), fields.get("realm", "")
        if not nonce or fields.get("algorithm") != "md5-sess" or _QUALITY not in fields.get("qop", _QUALITY).split(","):
            raise PermissionError("the server sends no challenge for a token, or wants to protect frames itself")
        start = hashlib.md5(b":".join((self._user, realm.encode(), self._password)), usedforsecurity=False).digest()
        key = _hash(start + f":{nonce}:{self._cnonce}".encode())
        middle = f"{nonce}:{_FIRST}:{self._cnonce}:{_QUALITY}"
        response, self._expected = (
            _hash(f"{key}:{middle}:{_hash(f'{method}:{_URI}'.encode())}".encode()) for method in ("AUTHENTICATE", "")
        )
        return (
            f'charset=utf-8,username="{self._user.decode()}",realm="{realm}",nonce="{nonce}",nc={_FIRST},'
            f'cnonce="{self._cnonce}",digest-uri="{_URI}",maxbuf=65536,response={response},qop={_QUALITY}'
        ).encode()

    def check(self, proof: bytes) -> None:
        """Return if the server knows the secret too. Raises: PermissionError - it does not."""
        if not self._expected or not hmac.compare_digest(_fields(proof).get("rspauth", ""), self._expected):
            raise PermissionError("the server does not know the token")


def _hash(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _fields(text: bytes) -> dict[str, str]:
    found = _FIELD.findall(text.decode("utf-8", "replace"))
    return {name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for name, quoted, plain in found}
