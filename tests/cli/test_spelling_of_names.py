"""Prove that every message spells a name as lists do, so that users can copy it into the next command."""

import re
from collections.abc import Iterator

import pytest

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.errors import TopicBusyError
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from tests.cli.support.admin import Admin
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.support.checkout import CHECKOUT

NAME = "\\xff\\\\it's"
"""Not UTF-8, with a backslash and a quote: Python spells each of them differently."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path_factory.mktemp("spelling")) as started:
        yield started


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "show", NAME),
        ("topic", "owner", NAME),
        ("topic", "release", NAME),
        ("topic", "stats", NAME),
        ("topic", "delete", NAME),
        ("subscription", "list", NAME),
        ("subscription", "show", NAME, "reader"),
        ("subscription", "lag", NAME),
        ("subscription", "reset", NAME, "reader", "--to", "0"),
        ("ledger", "list", NAME),
        ("message", "peek", NAME),
    ],
    ids=" ".join,
)
def test_a_topic_that_is_not_there_is_named_as_it_was_typed(admin: Admin, arguments: tuple[str, ...]) -> None:
    admin.done("metadata", "format")
    ran = admin.run(*arguments)
    assert (ran.code, f"topic '{NAME}'" in ran.err) == (ExitCode.NOT_FOUND, True), ran.err


def test_a_topic_that_is_used_is_named_as_it_was_typed(admin: Admin) -> None:
    admin.done("topic", "create", NAME)
    assert admin.done("topic", "list", "--no-header").out == f"{NAME}\n"
    made = admin.done("subscription", "create", NAME, NAME)
    assert made.err == ""
    refused = admin.run("topic", "delete", NAME)
    assert f"topic '{NAME}'" in refused.err
    asked = admin.run("topic", "delete", NAME, "--force", text="n\n")
    assert f"topic '{NAME}'" in asked.err


def test_a_name_with_a_lone_backslash_is_shown_as_it_was_typed(admin: Admin) -> None:
    assert "in the name 'back\\slash' must be doubled" in admin.run("topic", "create", "back\\slash").err
    assert "in the name 'a\\x1b\\y' must be doubled" in admin.run("topic", "create", "a\x1b\\y").err


def test_what_hubs_and_clients_say_names_it_so_too(pair: HubAndAdmin) -> None:
    pair.publish("known", b"m")
    ran = pair.admin.run("consume", "known", NAME, "1", HEDWIG_HUB=pair.hub.address)
    assert (ran.code, f"subscriber '{NAME}' is not subscribed" in ran.err) == (ExitCode.NOT_FOUND, True), ran.err
    topic, subscriber = Topic(b"\xff\\it's"), SubscriberId(b"\xff\\it's")
    with BlockingClient(ClientOptions(hub=HubAddress.parse(pair.hub.address))) as client:
        client.subscribe(topic, subscriber)
        with pytest.raises(TopicBusyError, match=re.escape(f"'{NAME}' to topic '{NAME}'")):
            client.subscribe(topic, subscriber)


def test_no_message_spells_a_name_as_python_does() -> None:
    sources = [path for folder in ("cli", "hub", "hedwig", "metadata") for path in (CHECKOUT / folder).rglob("*.py")]
    assert len(sources) > 200
    wrong = [path.name for path in sources if re.search(r"show_name\([^()]*\)!r|repr\(show_name", path.read_text())]
    assert wrong == []
