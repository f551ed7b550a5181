"""Prove the commands that talk to a hub, against a hub of ours: publish, subscribe, consume, unsubscribe."""

import asyncio
import base64
import json
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import click
import pytest

from hedwig.cli.main import main
from hedwig.cli.output.format_names import FORMATS
from hedwig.client import HubAddress
from hedwig.exit_codes import ExitCode
from hedwig.wire import CloseSubscription, Request
from tests.cli.support.admin import DEADLINE_S, Admin, Ran, wait_until
from tests.cli.support.agreement import check_agreement
from tests.client.support.tls import TlsHub
from tests.client.support.wire import Wire
from tests.hub.support.running import RunningHub

ON_HUBS: Final = {
    name: command
    for name, command in main.commands.items()
    if name != "console" and any("--hub" in parameter.opts for parameter in command.params)
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsHub]:
    """A hub for all tests that do not end it."""
    with TlsHub(tmp_path_factory.mktemp("cli-hub")) as started:
        assert isinstance(started, TlsHub)
        yield started


@pytest.fixture
def admin(tmp_path: Path, hub: TlsHub) -> Admin:
    return _admin_of(tmp_path, hub)


@pytest.fixture
def topic() -> str:
    return f"cli/{uuid.uuid4().hex}"


def _admin_of(directory: Path, hub: RunningHub) -> Admin:
    made = Admin(directory, f"sqlite://{directory}/store.db")
    made.environment |= {"HEDWIG_HUB": hub.address, "HEDWIG_TLS_CA": ""}
    return made


def _messages(admin: Admin, topic: str, *arguments: str, subscriber: str = "ann") -> list[Any]:
    """Return the messages that arrive within a second."""
    return admin.done("subscribe", topic, subscriber, "--idle", "1", "-o", "ndjson", *arguments).rows


def _bodies(admin: Admin, topic: str, *arguments: str) -> list[str]:
    return [row["body"] for row in _messages(admin, topic, *arguments)]


def _make_subscription(admin: Admin, topic: str, *arguments: str) -> None:
    ran = admin.done("subscribe", topic, "ann", "--mode", "create", "--idle", "0.01", "-o", "ndjson", *arguments)
    assert ran.out == ""


def _lines(start: int, stop: int) -> str:
    return "".join(f"line {number}\n" for number in range(start, stop))


# -------------------------------------------------------------------------------------------------------------- publish


def test_publish_says_where_a_message_is(admin: Admin, topic: str) -> None:
    assert admin.done("publish", topic, "hello", "-o", "json").json == {"topic": topic, "id": 1}
    assert admin.done("publish", topic, "hello").out.split() == ["topic", topic, "id", "2"]
    assert admin.done("publish", topic, "hello", "--columns", "id", "--no-header").out == "3\n"


def test_bodies_and_properties_arrive_as_they_were(admin: Admin, topic: str, tmp_path: Path) -> None:
    _make_subscription(admin, topic)
    (tmp_path / "binary").write_bytes(b"\xff\x00\n\\")
    admin.done("publish", topic, 'back\\slash "and"\nnewline', "--property", "lang=de", "--property", "raw=\\xff")
    admin.done("publish", topic, "--file", str(tmp_path / "binary"))
    admin.done("publish", topic, "")
    first, second, third = _messages(admin, topic)
    assert first == {
        "id": 1,
        "body": 'back\\slash "and"\nnewline',
        "properties": {"lang": "de", "raw": "\\xff", "raw_base64": base64.b64encode(b"\xff").decode()},
        "message_type": None,
        "source_region": "standalone",
    }
    assert base64.b64decode(second["body_base64"]) == b"\xff\x00\n\\"
    assert third["body"] == ""


def test_a_table_shows_each_message_on_one_line(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    admin.done("publish", topic, "two\nlines\x1b[31m", "--property", "lang=de")
    shown = admin.done("subscribe", topic, "ann", "--count", "1").out
    assert shown.splitlines()[1].split(maxsplit=2) == ["1", "two\\x0alines\\x1b[31m", "lang=de"]


def test_each_line_of_standard_input_is_a_message(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    ran = admin.done("publish", topic, "--property", "k=v", "-o", "json", text="one\n\nthree\r\nlast without an end")
    summary = ran.json
    assert summary.pop("seconds") >= 0
    assert summary.pop("messages_per_second") > 0
    assert summary == {"topic": topic, "published": 4, "first_id": 1, "last_id": 4}
    rows = _messages(admin, topic)
    assert [row["body"] for row in rows] == ["one", "", "three\r", "last without an end"]
    assert {row["properties"]["k"] for row in rows} == {"v"}


def test_many_lines_keep_their_order(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    ran = admin.done("publish", topic, "--ids", "--in-flight", "64", "-o", "ndjson", text=_lines(1, 3001))
    assert ran.rows == [{"line": number, "id": number} for number in range(1, 3001)]
    assert _bodies(admin, topic) == _lines(1, 3001).splitlines()


def test_no_lines_are_no_messages(admin: Admin, topic: str) -> None:
    assert admin.done("publish", topic, "-o", "json", text="").json["published"] == 0
    assert admin.done("publish", topic, "--ids", "-o", "json", text="").json["messages"] == []


def test_a_rate_is_kept(admin: Admin, topic: str) -> None:
    summary = admin.done("publish", topic, "--rate", "50", "-o", "json", text=_lines(0, 21)).json
    assert summary["published"] == 21
    assert summary["seconds"] >= 0.4


def test_a_line_is_published_before_the_next_one_comes(admin: Admin, topic: str) -> None:
    with _started(admin, "publish", topic, "--ids", "-o", "ndjson") as process:
        for number in (1, 2, 3):
            _stdin(process).write(b"line\n")
            _stdin(process).flush()
            assert json.loads(_stdout(process).readline()) == {"line": number, "id": number}
        out, err = _rest(process)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_ctrl_c_stops_the_reading_and_says_what_was_published(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    with _started(admin, "publish", topic, "--ids", "-o", "ndjson") as process:
        _stdin(process).write(_lines(0, 100).encode())
        _stdin(process).flush()
        for _ in range(100):
            assert _stdout(process).readline()
        process.send_signal(signal.SIGINT)
        _, err = _rest(process)
    assert process.returncode == ExitCode.INTERRUPTED
    assert err.decode().split("\n") == ["of 100 messages sent 100 are published", "", "interrupted", ""]
    assert len(_bodies(admin, topic)) == 100


def test_a_hub_that_dies_leaves_no_doubt_about_the_lines_before(tmp_path: Path, topic: str) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = _admin_of(tmp_path, hub)
        _make_subscription(admin, topic)
        with _started(
            admin, "publish", topic, "--in-flight", "8", "--ids", "-o", "ndjson", "--timeout", "2"
        ) as process:
            _stdin(process).write(_lines(0, 200).encode())
            _stdin(process).flush()
            ids = [json.loads(_stdout(process).readline())["id"] for _ in range(200)]
            hub.kill()
            _stdin(process).write(_lines(200, 300).encode())
            out, err = _rest(process)
        assert process.returncode in (ExitCode.OUTCOME_UNKNOWN, ExitCode.UNAVAILABLE)
        assert out == b""
        *before, said = err.decode().splitlines()
        assert all("a publish is tried again until its deadline" in line for line in before)
        assert "at line 201: " in said
        match = re.search(r"of (\d+) messages sent 200 are published, among them all before that line", said)
        assert match is not None, said
        assert 200 < int(match[1]) <= 208, "after the first that failed, no more are sent"
        hub.start()
        assert ids == list(range(1, 201))
        assert _bodies(admin, topic)[:200] == _lines(0, 200).splitlines()


def test_a_terminal_sees_the_progress(admin: Admin, topic: str) -> None:
    ran = _on_terminal(admin, f"publish {topic} --rate 400")
    assert ran.code == 0, ran
    assert "publishing" in ran.out
    assert "messages/s" in ran.out
    assert re.search(r"published[^\n]*400\r", ran.out)


def test_ids_go_to_their_file_past_the_progress(admin: Admin, topic: str) -> None:
    ran = _on_terminal(admin, f"publish {topic} --rate 400 --ids -o ndjson > ids")
    assert ran.code == 0, ran
    assert "messages/s" in ran.out
    assert '"id"' not in ran.out
    rows = [json.loads(line) for line in (admin.directory / "ids").read_text().splitlines()]
    assert rows == [{"line": number, "id": number} for number in range(1, 401)]


def _on_terminal(admin: Admin, command: str) -> Ran:
    """Run a command that reads 400 lines from a pipe and writes to a terminal; return what the terminal shows."""
    on_terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', sys.argv[1]])))"
    hedwig_admin = f"{shlex.quote(sys.executable)} -c 'from hedwig.cli.main import main; main()' {command}"
    return admin.run_apart(f"seq 1 400 | {hedwig_admin}", program=(sys.executable, "-c", on_terminal), TERM="xterm")


# ------------------------------------------------------------------------------------------------------------ subscribe


def test_what_was_written_is_consumed(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    admin.done("publish", topic, text=_lines(0, 7))
    assert _bodies(admin, topic, "--count", "3") == _lines(0, 3).splitlines()
    assert _bodies(admin, topic, "--no-consume", "--count", "2") == _lines(3, 5).splitlines()
    assert _bodies(admin, topic) == _lines(3, 7).splitlines()
    assert _bodies(admin, topic) == []


def test_what_could_not_be_written_comes_again(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    admin.done("publish", topic, text=_lines(0, 2000))
    with _started(admin, "subscribe", topic, "ann", "--follow", "-o", "ndjson") as process:
        read = [json.loads(_stdout(process).readline())["id"] for _ in range(10)]
        _stdout(process).close()
        assert process.wait(DEADLINE_S) == ExitCode.PIPE_CLOSED
    rest = [row["id"] for row in _messages(admin, topic)]
    assert read == list(range(1, 11))
    # The reader never read the messages that stayed in the pipe. None is missing after those.
    assert rest == list(range(rest[0], 2001))
    assert rest[0] < 2001


def test_following_goes_on_until_ctrl_c_and_ends_as_a_whole_document(admin: Admin, topic: str) -> None:
    with _started(admin, "subscribe", topic, "ann", "--follow", "-o", "json") as process:
        written = _read_until(process, b"[")
        admin.done("publish", topic, "one")
        admin.done("publish", topic, "two")
        written += _read_until(process, b'"two"')
        process.send_signal(signal.SIGINT)
        out, err = _rest(process)
    assert (process.returncode, err) == (ExitCode.INTERRUPTED, b"\ninterrupted\n")
    rows = json.loads(written + out)["messages"]
    assert [row["body"] for row in rows] == ["one", "two"]
    assert _bodies(admin, topic) == [], "what was written was consumed, also the last"


def test_following_survives_the_death_of_the_hub(tmp_path: Path, topic: str) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = _admin_of(tmp_path, hub)
        with _started(admin, "subscribe", topic, "ann", "--follow", "--count", "2", "-o", "ndjson") as process:
            wait_until(lambda: admin.run("unsubscribe", topic, "ann", "--dry-run").code == 0, "it is subscribed")
            admin.done("publish", topic, "before")
            assert json.loads(_stdout(process).readline())["body"] == "before"
            hub.kill()
            hub.start()
            admin.done("publish", topic, "after")
            out, _ = _rest(process)
        assert process.returncode == 0
        assert json.loads(out)["body"] == "after"


def test_nothing_came_is_not_said_when_the_hub_was_lost(tmp_path: Path, topic: str) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = _admin_of(tmp_path, hub)
        with _started(admin, "subscribe", topic, "ann", "--idle", "3", "-o", "ndjson") as process:
            wait_until(lambda: admin.run("unsubscribe", topic, "ann", "--dry-run").code == 0, "it is subscribed")
            hub.kill()
            _, err = _rest(process)
        assert process.returncode == ExitCode.UNAVAILABLE, err
        assert b"lost" in err


def test_modes(admin: Admin, topic: str) -> None:
    assert admin.run("subscribe", topic, "ann", "--mode", "attach").code == ExitCode.NOT_FOUND
    _make_subscription(admin, topic)
    again = admin.run("subscribe", topic, "ann", "--mode", "create")
    assert again.code == ExitCode.VERSION_CONFLICT
    assert "--mode attach" in again.err
    admin.done("publish", topic, "body")
    assert _bodies(admin, topic, "--mode", "attach") == ["body"]


def test_a_subscription_that_is_open_is_taken_by_force_only(admin: Admin, topic: str) -> None:
    with _started(admin, "subscribe", topic, "ann", "--follow") as process:
        wait_until(lambda: admin.run("unsubscribe", topic, "ann", "--dry-run").code == 0, "it is subscribed")
        busy = wait_until(lambda: (ran := admin.run("consume", topic, "ann", "1")).code and ran, "it is open")
        assert busy.code == ExitCode.FAILED
        assert "--force-attach" in busy.err
        admin.done("publish", topic, "one")
        assert admin.done("consume", topic, "ann", "1", "--force-attach").out
        _, err = _rest(process)
    assert process.returncode == ExitCode.FAILED
    assert b"took it over" in err


def test_a_worker_that_stands_by_says_where_it_waits(admin: Admin, topic: str) -> None:
    with _started(admin, "subscribe", topic, "ann", "--follow") as process:
        wait_until(lambda: admin.run("unsubscribe", topic, "ann", "--dry-run").code == 0, "it is subscribed")
        wait_until(lambda: admin.run("consume", topic, "ann", "1").code, "it is open")
        with _started(admin, "subscribe", topic, "ann", "--standby", "--count", "1", "-o", "ndjson") as following:
            assert following.stderr is not None
            assert b"this one waits at place 1" in following.stderr.readline()
            process.kill()
            wait_until(lambda: admin.done("publish", topic, "for the next").code == 0, "it is published")
            out, _ = _rest(following)
    assert following.returncode == 0
    assert json.loads(out)["body"] == "for the next"


def test_a_filter_chooses_messages(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic, "--filter", 'lang in ("de", "fr")')
    for lang in ("en", "de", "it"):
        admin.done("publish", topic, lang, "--property", f"lang={lang}")
    assert _bodies(admin, topic) == ["de"]
    for given in (("--filter", "lang ="), ("--filter", "has a", "--message-filter", "b")):
        assert admin.run("subscribe", topic, "ann", *given).code == ExitCode.USAGE
    admin.done("publish", topic, "it", "--property", "lang=it")
    assert _bodies(admin, topic, "--filter", "") == ["it"]


def test_preferences_take_effect(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic, "--message-bound", "3", "--option", "k=v")
    admin.done("publish", topic, text=_lines(0, 10))
    assert _bodies(admin, topic) == _lines(7, 10).splitlines()
    refused = admin.run("subscribe", topic, "bob", "--message-filter", "no.such.Filter")
    assert refused.code == ExitCode.FAILED
    assert "INVALID_MESSAGE_FILTER" in refused.err


# ------------------------------------------------------------------------------------------------- consume, unsubscribe


def test_consume_moves_the_pointer(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    admin.done("publish", topic, text=_lines(0, 5))
    done = admin.done("consume", topic, "ann", "3", "-o", "json")
    assert done.json == {"topic": topic, "subscriber": "ann", "consumed": None}, "the store is not that of the hub"
    assert "is not known" in done.err
    admin.done("consume", topic, "ann", "1")
    assert _bodies(admin, topic) == _lines(3, 5).splitlines()
    assert admin.run("consume", topic, "nobody", "1").code == ExitCode.NOT_FOUND


async def test_a_consume_that_the_hub_has_not_confirmed_is_not_reported_as_done(
    admin: Admin, hub: TlsHub, topic: str
) -> None:
    await asyncio.to_thread(_make_subscription, admin, topic)
    async with Wire(HubAddress.parse(hub.address)) as wire:

        def cut_at_the_end(request: Request) -> None:
            if isinstance(request.action, CloseSubscription):
                wire.cut()

        wire.intercept = cut_at_the_end
        ran = await asyncio.to_thread(admin.run, "consume", topic, "ann", "1", "--hub", str(wire.address))
    assert (ran.code, ran.out) == (ExitCode.OUTCOME_UNKNOWN, "")
    assert "before the hub confirmed it" in ran.err


def test_unsubscribe_asks_and_is_repeatable_on_request(admin: Admin, topic: str) -> None:
    _make_subscription(admin, topic)
    assert "[y/N]" not in admin.run("unsubscribe", topic, "nobody", text="y\n").err, "there is nothing to ask about"
    refused = admin.run("unsubscribe", topic, "ann", text="n\n")
    assert (refused.code, refused.out) == (ExitCode.FAILED, "")
    assert "ann" in refused.err
    would = admin.done("unsubscribe", topic, "ann", "--dry-run", "-o", "json").json
    assert would == {"topic": topic, "subscriber": "ann", "result": "would delete"}
    assert admin.done("unsubscribe", topic, "ann", "-o", "ndjson", text="y\n").rows[0]["result"] == "deleted"
    for again in (("--yes",), ("--dry-run",)):
        assert admin.run("unsubscribe", topic, "ann", *again).code == ExitCode.NOT_FOUND
        ran = admin.done("unsubscribe", topic, "ann", *again, "--if-exists", "-o", "json")
        assert ran.json["result"] == "absent"


# ---------------------------------------------------------------------------------------------------------- conventions


def test_examples_run_one_after_the_other(admin: Admin) -> None:
    assert list(ON_HUBS) == ["publish", "subscribe", "consume", "unsubscribe"]
    examples = [_example(command) for command in ON_HUBS.values()]
    for example in examples:
        assert admin.done(*example).out
        if example[0] == "subscribe":
            admin.done(*examples[0])


def test_formats_agree(admin: Admin, topic: str) -> None:
    results: dict[str, dict[str, str]] = {name: {} for name in ON_HUBS}
    for output in FORMATS:
        of_this = f"{topic}/{output}"
        _make_subscription(admin, of_this)
        for name, arguments in (
            ("publish", (of_this, "two\nlines", "--property", "lang=en")),
            ("subscribe", (of_this, "ann", "--count", "1")),
            ("consume", (of_this, "ann", "1")),
            ("unsubscribe", (of_this, "ann", "--yes")),
        ):
            results[name][output] = admin.done(name, *arguments, "-o", output).out
    for of_one in results.values():
        check_agreement(of_one)
    assert "two\\x0alines" in results["subscribe"]["csv"]


def _example(command: click.Command) -> list[str]:
    assert command.epilog is not None
    return shlex.split(command.epilog.removeprefix("Example: hedwig-admin "))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("publish", "news", "x", "--hub", "127.0.0.1:1", "--timeout", "0.5"),
            6,
            ["topic 'news'", "127.0.0.1:1", "--hub"],
        ),
        (("publish", "news", "x", "--hub", "nowhere:x"), 2, ["host:port", "nowhere:x"]),
        (("publish", "news", "x", "--hub", "127.0.0.1:1", "--tls"), 2, ["TLSPORT"]),
        (("publish", "news", "x", "--tls-ca", "/no/such"), 2, ["/no/such"]),
        (("publish", "news", "x", "--tls-ca", __file__, "--hub", "127.0.0.1:1:2"), 2, ["PEM"]),
        (("publish", "news", "x", "--file", __file__), 2, ["MESSAGE or --file"]),
        (("publish", "news", "x", "--rate", "1"), 2, ["--rate"]),
        (("publish", "news", "x", "--property", "k"), 2, ["KEY=VALUE"]),
        (("publish", "", "x"), 2, ["1 to 8192 bytes"]),
        (("publish", "news", "x" * 1_258_291), 2, ["topic 'news'", "does not fit"]),
        (("subscribe", "news"), 2, ["SUBSCRIBER"]),
        (("consume", "news", "ann", "0"), 2, ["ID"]),
        (("consume", "news", "nobody", "1"), 3, ["the subscription of 'nobody' to topic 'news'"]),
        (("unsubscribe", "news", "nobody", "--yes"), 3, ["nobody", "hedwig-admin subscription list news"]),
        (("unsubscribe", "news", "nobody"), 3, ["nobody", "hedwig-admin subscription list news"]),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_error_is_one_line(admin: Admin, arguments: Sequence[str], code: int, words: Sequence[str]) -> None:
    ran = admin.run(*arguments)
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line


def test_a_line_that_no_hub_takes_is_named(admin: Admin, topic: str) -> None:
    ran = admin.run("publish", topic, text="short\n" + "x" * 1_300_000)
    assert ran.code == ExitCode.USAGE
    assert "line 2" in ran.err
    assert "of 1 message sent 1 are published" in ran.err


def test_a_hub_that_hangs_before_a_request_has_surely_not_done_it(tmp_path: Path, topic: str) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = _admin_of(tmp_path, hub)
        admin.done("publish", topic, "x")
        _make_subscription(admin, topic)
        assert hub.process is not None
        hub.process.send_signal(signal.SIGSTOP)
        try:
            for command in (("publish", topic, "x"), ("unsubscribe", topic, "ann", "--yes")):
                ran = admin.run(*command, "--timeout", "0.5")
                assert (ran.code, ran.out) == (ExitCode.UNAVAILABLE, "")
                assert "see that a hub is up there" in ran.err
            ran = admin.run("hub", "show", "--timeout", "0.5", "--admin", hub.admin)
            assert (ran.code, "did not answer within" in ran.err) == (ExitCode.UNAVAILABLE, True), ran
            assert "nothing was changed" in ran.err
        finally:
            hub.process.send_signal(signal.SIGCONT)


def test_a_hub_that_hangs_behind_a_request_leaves_the_outcome_unknown(tmp_path: Path, topic: str) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = _admin_of(tmp_path, hub)
        with _started(admin, "publish", topic, "--ids", "-o", "ndjson", "--timeout", "2") as process:
            _stdin(process).write(b"one\n")
            _stdin(process).flush()
            assert json.loads(_stdout(process).readline())["id"] == 1
            assert hub.process is not None
            hub.process.send_signal(signal.SIGSTOP)
            try:
                _stdin(process).write(b"two\n")
                out, err = _rest(process)
            finally:
                hub.process.send_signal(signal.SIGCONT)
        assert (process.returncode, out) == (ExitCode.OUTCOME_UNKNOWN, b"")
        assert b"may or may not have been done" in err


def test_the_hub_comes_from_the_option_before_the_environment(admin: Admin, hub: TlsHub, topic: str) -> None:
    assert admin.run("publish", topic, "x", "--hub", hub.address, HEDWIG_HUB="127.0.0.1:1").code == 0
    nobody = admin.run("publish", topic, "x", "--timeout", "0.5", HEDWIG_HUB="127.0.0.1:1")
    assert nobody.code == ExitCode.UNAVAILABLE


def test_tls(admin: Admin, hub: TlsHub, topic: str) -> None:
    def publish(*arguments: str, **environment: str) -> Ran:
        return admin.run("publish", topic, "x", "--hub", f"127.0.0.1:1:{tls_port}", *arguments, **environment)

    tls_port = hub.tls_address.rpartition(":")[2]
    assert publish("--tls-ca", str(hub.certificate)).code == 0
    assert publish(HEDWIG_TLS_CA=str(hub.certificate)).code == 0
    assert publish("--tls-insecure").code == 0
    refused = publish("--tls")
    assert refused.code == ExitCode.FAILED
    assert "certificate verify failed" in refused.err
    assert publish("--tls-insecure", "--tls-ca", str(hub.certificate)).code == ExitCode.USAGE


@contextmanager
def _started(admin: Admin, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command, and end it with the test, also with one that fails."""
    with admin.start(*arguments) as process:
        try:
            yield process
        finally:
            process.kill()


def _read_until(process: "subprocess.Popen[bytes]", end: bytes) -> bytes:
    """Return standard output up to and including `end`."""
    read = b""
    while not read.endswith(end):
        byte = _stdout(process).read(1)
        assert byte, read
        read += byte
    return read


def _rest(process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    """Close standard input, wait for the end, and return the unread rest of both outputs."""
    assert process.stderr is not None
    _stdin(process).close()
    # `communicate` would skip what was read ahead.
    rest = _stdout(process).read(), process.stderr.read()
    process.wait(DEADLINE_S)
    return rest


def _stdin(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _stdout(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def test_lines_for_a_hub_that_is_not_there_say_that_none_is_published(admin: Admin) -> None:
    ran = admin.run("publish", "news", "--hub", "127.0.0.1:1", "--timeout", "2", text="one\ntwo\n")
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.UNAVAILABLE, 1)
    assert ran.err.endswith(" sent none is published\n")
