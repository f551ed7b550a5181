"""Prove that nodes are closed to those without a login, that TLS sessions trust none but their servers, and hide it."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataForbiddenError
from hedwig.metadata.hbase.native.cluster.znodes import read_node
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.store_access import StoreAccess
from hedwig.zookeeper import (
    ANY_VERSION,
    Bridge,
    BridgeOptions,
    Request,
    acl_of,
    children,
    close_tree,
    create,
    delete,
    exists,
    get,
    get_acl,
    is_open_to_all,
    set_at,
    transaction,
)
from tests.hub.support.tls_client import Authority
from tests.zookeeper.support.locked_server import LOGIN, LockedServer

CLOCK: Final = SystemClock()
_OLDER: Final = "hedwig:the-one-before"
_SHORT_S: Final = 3.0


def _soon(seconds: float = 30.0) -> Deadline:
    return Deadline.after(CLOCK, seconds)


async def _answer(session: Bridge, request: Request) -> Any:
    """Ask until there is an answer."""
    deadline = _soon(60.0)
    while True:
        with suppress(OutcomeUnknownError):
            return (await session.send(deadline, request))[0]


async def _close(session: Bridge, root: str, stores_file: str, advance: Callable[[int], None] = lambda _: None) -> int:
    return await close_tree(session, root, acl_of(StoreAccess.read(stores_file).zookeeper), CLOCK, 30.0, advance)


class Sessions:
    """Opens sessions that end with the test."""

    def __init__(self, locked: LockedServer, stack: AsyncExitStack) -> None:
        self._locked = locked
        self._stack = stack

    async def open(self, stores_file: str = "", *, hosts: str = "", connect_timeout_s: float = 30.0) -> Bridge:
        access = StoreAccess.read(stores_file).zookeeper
        where = hosts or (self._locked.plain if access.tls is None else self._locked.secure)
        bridge = Bridge(where, BridgeOptions(access=access, connect_timeout_s=connect_timeout_s))
        self._stack.push_async_callback(bridge.close)
        await bridge.connect()
        return bridge


@pytest.fixture
async def sessions(locked: LockedServer) -> AsyncIterator[Sessions]:
    async with AsyncExitStack() as stack:
        yield Sessions(locked, stack)


@pytest.fixture
def root() -> str:
    return f"/{uuid.uuid4().hex}"


# ---------------------------------------------------------------------------------------------------------- logins


async def test_nodes_of_a_session_with_a_login_are_closed_to_all_others(
    locked: LockedServer, sessions: Sessions, root: str
) -> None:
    ours, stranger = await sessions.open(locked.stores_file(LOGIN)), await sessions.open()
    other = await sessions.open(locked.stores_file("hedwig:guessed"))
    both = transaction(lambda operations: operations.create(f"{root}/b", b"2"))
    await ours.send(_soon(), create(root), create(f"{root}/a", b"1"), both, create(f"{root}/c", ephemeral=True))
    for path in (root, f"{root}/a", f"{root}/b", f"{root}/c"):
        attempts = (
            get(path),
            set_at(path, b"forged", ANY_VERSION),
            delete(f"{path}/x"),
            create(f"{path}/x"),
            create(f"{path}/y", ephemeral=True),
            children(path),
        )
        for session in (stranger, other):
            answers = await session.send(_soon(), *attempts)
            # Without the right to look below it, a stranger still learns that a node has no such child.
            refused = [answer for index, answer in enumerate(answers) if index != 2]
            assert [type(answer) for answer in refused] == [NoAuthError] * 5, path
    for session in (stranger, other):
        assert isinstance((await session.send(_soon(), delete(f"{root}/a")))[0], NoAuthError)
    again = await sessions.open(locked.stores_file(LOGIN))
    (data, _), names = await again.send(_soon(), get(f"{root}/a"), children(root))
    assert (data, sorted(names)) == (b"1", ["a", "b", "c"])


async def test_password_changes_while_sessions_with_the_older_one_go_on(
    locked: LockedServer, sessions: Sessions, root: str
) -> None:
    older = await sessions.open(locked.stores_file(_OLDER))
    await older.send(_soon(), create(root), create(f"{root}/a"))
    during, after = locked.stores_file(LOGIN, _OLDER), locked.stores_file(LOGIN)
    both = await sessions.open(during)
    await both.send(_soon(), create(f"{root}/b"))
    (stat,) = await older.send(_soon(), set_at(f"{root}/b", b"1", ANY_VERSION))
    assert stat.version == 1
    assert await _close(both, root, during) == 2
    newer = await sessions.open(after)
    assert sorted((await newer.send(_soon(), children(root)))[0]) == ["a", "b"]
    assert await _close(newer, root, after) == 3
    assert isinstance((await older.send(_soon(), get(f"{root}/a")))[0], NoAuthError)


async def test_tree_is_closed_from_its_root_down_and_again_without_a_change(
    locked: LockedServer, sessions: Sessions, root: str
) -> None:
    stranger = await sessions.open()
    file = locked.stores_file(LOGIN)
    paths = [root, *(f"{root}/{number}" for number in range(300)), f"{root}/7/deep", f"{root}/7/deep/er"]
    await stranger.send(_soon(), *map(create, paths))
    opening = await sessions.open(locked.stores_file(LOGIN, new_nodes="open"))
    await opening.send(_soon(), create(f"{root}/while hubs are told"))
    ours, seen = await sessions.open(file), [0]

    def advance(number: int) -> None:
        seen[0] += number

    (before, _), (of_opening, _) = await ours.send(_soon(), get_acl(root), get_acl(f"{root}/while hubs are told"))
    assert is_open_to_all(before)
    assert is_open_to_all(of_opening)
    assert await _close(ours, root, file, advance) == len(paths) + 1 == seen[0]
    for answer in await stranger.send(_soon(), *map(get, paths)):
        assert isinstance(answer, NoAuthError)
    assert not is_open_to_all((await ours.send(_soon(), get_acl(root)))[0][0])
    assert await _close(ours, root, file, advance) == 0
    assert await _close(ours, f"{root}/nowhere", file) == 0


async def test_node_of_others_is_named(locked: LockedServer, sessions: Sessions, root: str) -> None:
    file = locked.stores_file(LOGIN)
    ours = await sessions.open(file)
    await ours.send(_soon(), create(root))

    def of_another(client: KazooClient) -> Any:
        return client.create_async(f"{root}/theirs", b"", [make_digest_acl("mallory", "m", all=True)])

    await ours.send(_soon(), of_another)
    with pytest.raises(MetadataForbiddenError, match=f"{root}/theirs lets no login"):
        await _close(ours, root, file)


async def test_login_is_in_no_line_of_the_log(
    locked: LockedServer, sessions: Sessions, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.NOTSET)
    for name in ("kazoo", "hedwig"):
        caplog.set_level(1, name)
    file = locked.stores_file(LOGIN)
    ours = await sessions.open(file)
    await ours.send(_soon(), create(root))
    assert "Auth(" in caplog.text
    assert LOGIN.partition(":")[2] not in caplog.text
    assert LOGIN.partition(":")[2] not in repr(StoreAccess.read(file))


# ------------------------------------------------------------------------------------------------------------- TLS


async def test_tls_session_carries_large_and_many_requests_and_outlives_its_server(
    locked: LockedServer, sessions: Sessions, root: str
) -> None:
    ours = await sessions.open(locked.stores_file(LOGIN, trusted=locked.authority))
    body = bytes(range(256)) * 3000
    await ours.send(_soon(), create(root), create(f"{root}/large", body))
    await ours.send(_soon(), *(create(f"{root}/{number}") for number in range(1000)))
    large = await ours.send(_soon(), *[get(f"{root}/large")] * 30)
    assert {data for data, _ in large} == {body}
    assert len((await ours.send(_soon(), children(root)))[0]) == 1001
    await asyncio.to_thread(locked.restart)
    assert (await _answer(ours, get(f"{root}/large")))[0] == body
    ours.drop_connection()
    assert await _answer(ours, exists(root)) is not None


@pytest.fixture
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other") / "authority")


async def test_servers_that_another_authority_certifies_are_not_spoken_to(
    locked: LockedServer, sessions: Sessions, other_authority: Authority
) -> None:
    file = locked.stores_file(LOGIN, trusted=other_authority)
    with pytest.raises(NotAppliedError, match="CERTIFICATE_VERIFY_FAILED"):
        await sessions.open(file, hosts=locked.secure, connect_timeout_s=_SHORT_S)


async def test_servers_with_a_certificate_for_another_name_are_not_spoken_to(
    locked: LockedServer, sessions: Sessions
) -> None:
    file = locked.stores_file(LOGIN, trusted=locked.authority)
    hosts = f"localhost:{locked.secure.rpartition(':')[2]}"
    with pytest.raises(NotAppliedError, match="certificate is not valid for 'localhost'"):
        await sessions.open(file, hosts=hosts, connect_timeout_s=_SHORT_S)


async def test_server_speaks_to_nobody_without_a_certificate(locked: LockedServer, sessions: Sessions) -> None:
    file = locked.stores_file(LOGIN, trusted=locked.authority, shown=None)
    with pytest.raises(NotAppliedError):
        await sessions.open(file, hosts=locked.secure, connect_timeout_s=_SHORT_S)
    with pytest.raises(NotAppliedError):
        await sessions.open("", hosts=locked.secure, connect_timeout_s=_SHORT_S)


async def test_certificates_are_those_of_the_files_as_they_are_at_each_connection(
    locked: LockedServer, sessions: Sessions, other_authority: Authority, root: str
) -> None:
    file = locked.stores_file(LOGIN, trusted=locked.authority, shown="swapped")
    certificate = StoreAccess.read(file).zookeeper.tls
    assert certificate is not None
    assert certificate.certificate is not None
    ours = await sessions.open(file)
    kept = certificate.certificate.read_bytes()
    certificate.certificate.write_text("broken")
    ours.drop_connection()
    with pytest.raises(Exception, match="ZooKeeper"):
        await ours.send(_soon(_SHORT_S), exists("/zookeeper"))
    certificate.certificate.write_bytes(kept)
    latest = _soon(60.0)
    while True:
        try:
            assert (await ours.send(latest, exists("/zookeeper")))[0] is not None
            break
        except OutcomeUnknownError:  # It went out on a connection that was over.
            assert not latest.expired


async def test_node_is_read_over_tls_with_a_login(locked: LockedServer, sessions: Sessions, root: str) -> None:
    """As the HBase driver does, which has no session."""
    file = locked.stores_file(LOGIN, _OLDER, trusted=locked.authority)
    access = StoreAccess.read(file).zookeeper
    ours = await sessions.open(file)
    await ours.send(_soon(), create(root, b"content"))
    host, _, port = locked.secure.partition(":")
    assert await read_node(host, int(port), root, _soon(), access) == b"content"
    assert await read_node(host, int(port), f"{root}/nowhere", _soon(), access) is None
    plain_host, _, plain_port = locked.plain.partition(":")
    with pytest.raises(NotAppliedError, match="ZooKeeper's error -102"):
        await read_node(plain_host, int(plain_port), root, _soon())
    with pytest.raises(NotAppliedError):
        await read_node(host, int(port), root, _soon(_SHORT_S))
