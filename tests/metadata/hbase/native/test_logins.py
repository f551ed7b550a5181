"""Prove that what a server sends during a login is read as it is, however it is cut, and nothing else is a login."""

import asyncio
import struct
from collections.abc import Iterator

import pytest

from hedwig.metadata.hbase.native.wire.logins import LoginAnswers


def text(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_tokens_are_read_one_after_the_other(size: int) -> None:
    answers = LoginAnswers()
    reading = asyncio.create_task(_tokens(answers, 3))
    for piece in pieces(b"".join(bytes(4) + text(token) for token in (b"one", b"", b"three")), size):
        answers.data_received(piece)
        await asyncio.sleep(0)
    assert await reading == [b"one", b"", b"three"]
    assert answers.are_over


async def _tokens(answers: LoginAnswers, count: int) -> list[bytes]:
    return [await answers.token() for _ in range(count)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes(4) + struct.pack(">i", -88), "asks nobody for a login"),
        (
            struct.pack(">i", 1) + text(b"javax.security.sasl.SaslException") + text(b"no such user"),
            "refuses the login: SaslException: no such user",
        ),
        (bytes(4) + struct.pack(">i", -1), "sends no login: -1 bytes follow"),
        (bytes(4) + struct.pack(">i", 1 << 17), "sends no login: 131072 bytes follow"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "sends no login: 791752241 bytes follow"),
    ],
)
async def test_what_is_no_login_is_refused(data: bytes, said: str) -> None:
    answers = LoginAnswers()
    answers.data_received(data)
    with pytest.raises(PermissionError, match=said):
        await answers.token()


async def test_a_connection_that_ends_ends_the_login() -> None:
    answers = LoginAnswers()
    reading = asyncio.create_task(answers.token())
    await asyncio.sleep(0)
    answers.data_received(bytes(5))
    answers.connection_lost(None)
    with pytest.raises(PermissionError, match="the login ended: the connection ended"):
        await reading
    assert not answers.are_over


async def test_a_flood_takes_no_memory() -> None:
    answers = LoginAnswers()
    for _ in range(100):
        answers.data_received(bytes(1 << 16))
    assert len(answers._data) <= 1 << 18
    assert not answers.are_over
