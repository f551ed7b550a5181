"""Prove that a login by a token is that of RFC 2831, with both proofs, and what is in a file with a token."""

from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError
from hedwig.metadata.hbase.native.wire import tokens
from hedwig.metadata.hbase.native.wire.tokens import Digest, Token

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def test_the_proofs_are_those_of_the_example_in_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_URI", "imap/elwood.innosoft.com")
    digest = Digest(Token(b"", b""), "OA6MHXh6VqTrRk")
    digest._user, digest._password = b"chris", b"secret"
    answer = digest.answer(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b'username="chris",realm="elwood.innosoft.com"' in answer
    digest.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    with pytest.raises(PermissionError, match="does not know the token"):
        digest.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


def test_no_two_logins_are_alike() -> None:
    token = Token(b"who", b"secret")
    assert Digest(token).answer(CHALLENGE) != Digest(token).answer(CHALLENGE)


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff\xfe", b'realm="default"', b'nonce="x",algorithm=md5', CHALLENGE.replace(b'"auth"', b'"auth-conf"')],
)
def test_what_is_no_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(PermissionError, match="no challenge for a token"):
        Digest(Token(b"who", b"secret")).answer(challenge)


def test_a_server_that_proves_nothing_is_not_believed() -> None:
    digest = Digest(Token(b"who", b"secret"))
    for proof in (b"", b"rspauth="):
        with pytest.raises(PermissionError, match="does not know the token"):
            digest.check(proof)


def test_a_token_is_kept_in_a_file(tmp_path: Path) -> None:
    token, path = Token(b"\0who", b"a canary"), tmp_path / "hbase.token"
    path.write_text(token.text)
    assert Token.read(path) == token
    assert "canary" not in repr(token)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"identifier": "AA==", "password": 1}', '{"identifier": "a canary"}']
)
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "hbase.token"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="has no token of HBase") as told:
        Token.read(path)
    assert "canary" not in str(told.value)
    with pytest.raises(ConfigurationError, match="nowhere: No such file"):
        Token.read(tmp_path / "nowhere")
