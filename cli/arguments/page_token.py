"""Page tokens: where a listing was cut, so that the next call continues exactly there."""

import base64
import binascii
import zlib

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["make_page_token", "read_page_token"]

_CHECK_BYTES = 4


def make_page_token(listing: str, last: bytes) -> str:
    """Return the token that continues `listing` after the name `last`. `listing` says what is listed."""
    return base64.urlsafe_b64encode(_check(listing, last) + last).rstrip(b"=").decode()


def read_page_token(listing: str, token: str) -> bytes:
    """Return the last name before `token`.

    Raises: OperationError - a token that was cut short or mistyped, or of another listing: continuing there would
        silently skip names.
    """
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    check, last = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if not last or check != _check(listing, last):
        raise OperationError(
            f"the page token {token!r} is not of this listing. Copy all of it, and give the same store, spelt alike, "
            "the same topic and the same --prefix",
            ExitCode.USAGE,
        )
    return last


def _check(listing: str, last: bytes) -> bytes:
    return zlib.crc32(last, zlib.crc32(listing.encode("utf-8", "surrogateescape"))).to_bytes(_CHECK_BYTES, "big")
