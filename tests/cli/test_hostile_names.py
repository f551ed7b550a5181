"""Prove that the terminal of an operator obeys nothing that a client has chosen."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from hedwig.cli.output.format_names import FORMATS
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message
from tests.cli.support.admin import Admin
from tests.cli.support.hub_and_admin import HubAndAdmin

HOSTILE: Final = "\x1b]0;owned\x07\x1b[2J\n\x9b31m\x7f\\"
SHOWN: Final = "\\x1b]0;owned\\x07\\x1b[2J\\x0a\\xc2\\x9b31m\\x7f\\\\"
TOPIC: Final = Topic(b"news")
BODY: Final = b"\xc2\x9b31m\x7f"
"""A body is shown raw where it can be told from its surroundings."""

OBEYED: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub with a topic whose clients were hostile."""
    with HubAndAdmin(tmp_path_factory.mktemp("hostile")) as started:
        with BlockingClient(ClientOptions(hub=HubAddress.parse(started.hub.address))) as client:
            preferences = SubscriptionPreferences(options={HOSTILE: HOSTILE.encode()})
            client.subscribe(TOPIC, SubscriberId(b"reader"), preferences=preferences).close()
            message = Message(BODY, properties={HOSTILE: HOSTILE.encode()}, message_type=HOSTILE)
            client.publish(TOPIC, message)
        yield started


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(
    "command",
    [
        ("message", "peek", "news", "--columns", "id,body,properties,message_type"),
        ("ledger", "read", "news", "--columns", "id,body,properties,message_type"),
        ("subscription", "show", "news", "reader"),
        ("subscription", "list", "news", "--columns", "subscriber,options"),
        ("topic", "show", "news"),
    ],
    ids=" ".join,
)
def test_names_that_clients_chose_are_shown_as_all_names_are(
    pair: HubAndAdmin, command: tuple[str, ...], output: str
) -> None:
    _check(pair.admin.done(*command, "-o", output).out)


@pytest.mark.parametrize("output", FORMATS)
def test_names_of_filters_are_shown_so_too_and_typed_as_they_are_shown(admin: Admin, output: str) -> None:
    """A hub refuses a filter that it does not have, but the store of another hub may name one."""
    admin.done("metadata", "format")
    admin.done("topic", "create", "news")
    given = ("--message-filter", SHOWN, "--option", f"{SHOWN}=value")
    admin.done("subscription", "create", "news", "reader", *given)
    shown = admin.done("subscription", "show", "news", "reader", "-o", "json").json
    assert (shown["message_filter"], shown["options"]) == (SHOWN, {SHOWN: "value"})
    for columns in ("message_filter", "options"):
        _check(admin.done("subscription", "show", "news", "reader", "--columns", columns, "-o", output).out)


def test_properties_are_typed_as_they_are_shown(pair: HubAndAdmin) -> None:
    pair.admin.done("publish", "typed", "body", "--property", f"{SHOWN}=value", "--hub", pair.hub.address)
    (row,) = pair.admin.done("message", "peek", "typed", "-o", "json").json["messages"]
    assert row["properties"] == {SHOWN: "value"}


@pytest.mark.parametrize(
    ("option", "name"), [("--option", "back\\slash=v"), ("--option", "\\xff=v"), ("--message-filter", "\\xff")]
)
def test_a_name_that_is_no_text_is_refused(admin: Admin, option: str, name: str) -> None:
    admin.done("metadata", "format")
    admin.done("topic", "create", "news")
    ran = admin.run("subscription", "create", "news", "reader", option, name)
    assert ran.code == ExitCode.USAGE
    assert "must be" in ran.err


def test_what_the_hub_refuses_is_said_to_nobody_raw(pair: HubAndAdmin) -> None:
    hub = ("--hub", pair.hub.address)
    ran = pair.admin.run("subscribe", "news", "filtered", "--message-filter", SHOWN, "--count", "1", *hub)
    assert ran.code != 0
    assert "has no message filter" in ran.err
    assert OBEYED.search(ran.err) is None, ran.err
    assert OBEYED.search(pair.hub.log) is None, pair.hub.log


def _check(out: str) -> None:
    assert OBEYED.search(out) is None, out
    assert SHOWN in out or SHOWN.replace("\\", "\\\\") in out, "what is JSON doubles each backslash"
