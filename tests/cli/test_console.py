"""Prove the console: all of hedwig-admin, all of the original's console, and its session, also in a terminal."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.cli.console.commands import console_commands
from hedwig.cli.console.session import ConsoleSession, split_line
from hedwig.cli.main import main
from hedwig.cli.settings.settings import Settings
from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.terminal import Terminal

ORIGINAL = (
    *("pub", "sub", "closesub", "unsub", "rmsub", "consume", "consumeto", "pubsub", "show", "describe", "readtopic"),
    *("format", "set", "history", "redo", "help", "quit", "exit"),
)
"""The commands of the original's console."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub, and hedwig-admin with its address."""
    with HubAndAdmin(tmp_path_factory.mktemp("console")) as started:
        started.admin.environment |= {"HEDWIG_HUB": started.hub.address}
        yield started


@pytest.fixture
def topic() -> str:
    return f"console-{uuid.uuid4().hex[:8]}"


def _run(admin: Admin, *lines: str) -> Ran:
    words = [word for line in lines for word in ("-c", line)]
    return admin.run("console", "-o", "ndjson", *words)


# ------------------------------------------------------------------------------------------------------- what there is


def test_all_of_hedwig_admin_and_all_of_the_original_is_there() -> None:
    session = ConsoleSession(Settings(), main.commands, console_commands)
    assert {*main.commands, *ORIGINAL} <= set(session.program.commands)


@pytest.mark.parametrize("name", [*ORIGINAL, "consumenext", "show hubs", "show topics", "show subs", "describe topic"])
def test_every_command_of_the_console_explains_itself_with_an_example(admin: Admin, name: str) -> None:
    ran = admin.run("console", "-c", f"help {name}")
    assert ran.code == 0, ran
    last = ran.out.rstrip().split("\n\n")[-1].strip()
    assert last.startswith(f"Example: {name}".rstrip())


def test_lines_are_words_as_in_a_shell_and_free_text_as_in_the_original() -> None:
    assert split_line("topic create 'a b' c") == ["topic", "create", "a b", "c"]
    assert split_line("hedwig-admin topic list") == ["topic", "list"]
    assert split_line("  # a remark, isn't it") == []
    assert split_line("pub news it's raining") == ["pub", "news", "it's", "raining"]
    with pytest.raises(ValueError, match="quotation"):
        split_line("topic create it's")


# ------------------------------------------------------------------------------------------------------------- scripts


def test_lines_run_one_after_the_other_and_the_last_failure_is_the_exit_code(admin: Admin) -> None:
    ran = _run(admin, "topic create news", "topic show nobody", "hedwig-admin topic list", "")
    assert ran.code == ExitCode.NOT_FOUND
    assert [row.get("topic") for row in ran.rows] == ["news", "news"]
    assert "nobody" in ran.err
    assert _run(admin, "frobnicate").code == ExitCode.USAGE
    unclosed = _run(admin, "topic create it's", "topic list")
    assert (unclosed.code, len(unclosed.err.splitlines())) == (ExitCode.USAGE, 1)
    assert unclosed.rows == [{"topic": "news"}]


def test_lines_come_from_a_pipe_until_quit(admin: Admin) -> None:
    script = b"# make one\ntopic create news\nshow topics\nquit\ntopic create weather\n"
    ran = admin.run_apart("console", "-o", "ndjson", text=script)
    assert (ran.code, ran.err) == (0, "")
    assert [row["topic"] for row in ran.rows] == ["news", "news"]
    assert admin.count("persistence") == 1


def test_the_console_is_not_opened_in_the_console(admin: Admin) -> None:
    assert "already" in _run(admin, "console").err


def test_settings_hold_for_all_further_lines(admin: Admin) -> None:
    other = f"sqlite://{admin.directory}/other.db"
    admin.done("topic", "create", "there", "--metadata", other)
    admin.done("topic", "create", "here")
    ran = _run(admin, f"set metadata {other}", "show topics", f"show topics --metadata {admin.url}", "show topics")
    assert ran.rows[0]["metadata"] == other
    assert [row["topic"] for row in ran.rows[1:]] == ["there", "here", "there"]
    assert ran.rows[0]["printwatches"] == "on"
    assert _run(admin, "set printwatches off", "set").rows[-1]["printwatches"] == "off"
    for wrong in ("set printwatches perhaps", "set timeout soon", "set output xml", "set colour red", "set timeout"):
        assert _run(admin, wrong).code == ExitCode.USAGE, wrong


def test_mistake_names_the_help_that_there_is_in_the_console(admin: Admin) -> None:
    for line, wanted in (
        ("set colour red", "help set"),
        ("topic create", "help topic create"),
        ("topic frobnicate", "help topic"),
        ("frobnicate", "help"),
    ):
        ran = _run(admin, line)
        assert (ran.code, ran.err.rpartition("; see: ")[2]) == (ExitCode.USAGE, f"{wanted}\n")
        assert _run(admin, wanted).code == 0
    assert admin.run("topic", "create").err.endswith("; see: hedwig-admin topic create --help\n")


def test_lines_can_be_repeated(admin: Admin) -> None:
    ran = _run(admin, "topic create news", "topic list", "redo 1", "redo !", "history", "redo 99", "redo x")
    assert ran.code == ExitCode.NOT_FOUND
    typed = [row["line"] for row in ran.rows if "line" in row]
    assert typed == ["topic create news", "topic list", "topic create news", "topic create news"]
    assert ran.err.count("exists already") == 2


def test_metadata_are_described_and_wiped_by_the_originals_names(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "reader")
    (shown,) = _run(admin, "describe topic news").rows
    assert (shown["topic"], shown["subscription_count"]) == ("news", 1)
    assert _run(admin, "format").code == ExitCode.USAGE  # The command asks, and nobody answers.
    assert admin.count("persistence") == 1
    assert _run(admin, "format -force").code == 0
    assert admin.count("persistence") == 0


def test_hubs_are_shown_by_the_originals_name(admin: Admin) -> None:
    ran = _run(admin, "show hubs --cluster zookeeper://127.0.0.1:1/x --timeout 1")
    assert ran.code == ExitCode.UNAVAILABLE
    assert "hub list failed" in ran.err


# ------------------------------------------------------------------------------------------------------------ at a hub


def test_messages_are_published_and_read_by_the_originals_names(both: HubAndAdmin, topic: str) -> None:
    ran = _run(
        both.admin,
        f"pub {topic} it's raining --and-so-on",
        f"pub {topic} again",
        f"readtopic {topic}",
        f"readtopic {topic} 2",
    )
    assert ran.code == 0, ran
    assert [row.get("body") for row in ran.rows] == [None, None, "it's raining --and-so-on", "again", "again"]


def test_a_topic_is_tried_out(both: HubAndAdmin, topic: str) -> None:
    ran = _run(both.admin, f"pubsub {topic} check 20 are you there")
    (row,) = ran.rows
    assert (row["topic"], row["id"], row["subscriber"].startswith("check-")) == (topic, 1, True)
    assert row["published_ms"] > 0
    assert row["received_ms"] > 0
    # Only the message remains.
    listed = both.admin.done("subscription", "list", topic, "-o", "json").json
    assert listed["subscriptions"] == []
    away = _run(both.admin, "set hub 127.0.0.1:1", f"pubsub {topic} check 1 hello")
    assert away.code == ExitCode.UNAVAILABLE


def test_subscriptions_live_in_the_console(both: HubAndAdmin, topic: str) -> None:
    both.subscribe(topic, "reader")
    both.publish(topic, b"one", b"two", b"three", b"four")
    ran = _run(
        both.admin,
        f"sub {topic} nobody",
        f"sub {topic} reader 1 false",
        f"sub {topic} reader",
        "show subs",
        f"consumeto {topic} reader 1",
        f"consume {topic} reader 2",
        f"closesub {topic} reader",
        f"consumeto {topic} reader 3",
    )
    assert ran.code == ExitCode.NOT_FOUND
    opened, shown, *moved, closed = ran.rows
    assert (opened["result"], opened["receives"]) == ("open", False)
    assert (shown["subscriber"], shown["attached"], shown["receives"]) == ("reader", True, False)
    assert [(row["result"], row["id"]) for row in moved] == [("sent", 1), ("sent", 2)]
    assert closed["result"] == "closed"
    errors = ran.err.splitlines()
    assert len(errors) == 3, errors
    assert "nobody" in errors[0]
    assert "open here already" in errors[1]
    assert "not open in this console" in errors[2]
    assert both.read(topic, "reader", 2) == [3, 4]


def test_consume_moves_the_pointer_of_one_that_is_not_open_here(both: HubAndAdmin, topic: str) -> None:
    both.subscribe(topic, "reader")
    both.publish(topic, b"one", b"two")
    assert _run(both.admin, f"consume {topic} reader 1").rows[0]["consumed"] == 1
    assert both.read(topic, "reader", 1) == [2]


def test_consumenext_counts_from_the_pointer_in_the_store(both: HubAndAdmin, topic: str) -> None:
    both.subscribe(topic, "reader")
    both.publish(topic, b"one", b"two", b"three")
    ran = _run(both.admin, f"sub {topic} reader attach false", f"consumenext {topic} reader 2", "quit")
    assert (ran.rows[-1]["result"], ran.rows[-1]["id"]) == ("sent", 2)
    assert both.read(topic, "reader", 1) == [3]


def test_subscriptions_are_deleted_after_a_question(both: HubAndAdmin, topic: str) -> None:
    both.subscribe(topic, "reader")
    ran = _run(both.admin, f"unsub {topic} reader --yes", f"sub {topic} reader", f"unsub {topic} reader")
    assert ran.code == ExitCode.USAGE  # The command asks, and nobody answers.
    assert "--yes" in ran.err
    ran = _run(both.admin, f"sub {topic} reader", f"unsub {topic} reader --yes", f"sub {topic} reader")
    assert ran.rows[1]["result"] == "deleted"
    assert ran.code == ExitCode.NOT_FOUND


def test_subscriptions_are_removed_by_number(both: HubAndAdmin, topic: str) -> None:
    for number in (1, 2):
        both.subscribe(f"{topic}-{number}", "reader-7")
    assert _run(both.admin, f"rmsub {topic}- 1 2 reader- 7 8").code == ExitCode.USAGE  # The command asks.
    (row,) = _run(both.admin, f"rmsub {topic}- 1 2 reader- 7 8 --dry-run").rows
    assert row == {"result": "would delete", "subscriptions": 4}
    (row,) = _run(both.admin, f"rmsub {topic}- 1 2 reader- 7 8 --yes").rows
    assert row["subscriptions"] == 4
    for number in (1, 2):
        listed = both.admin.done("subscription", "list", f"{topic}-{number}", "-o", "json").json
        assert listed["subscriptions"] == []
    assert _run(both.admin, f"rmsub {topic}- 2 1 reader- 7 8 --yes").code == ExitCode.USAGE


# -------------------------------------------------------------------------------------------------------- on a terminal


def test_a_session_on_a_terminal(both: HubAndAdmin, topic: str, tmp_path: Path) -> None:
    admin = Admin(tmp_path, both.admin.url)
    admin.environment |= {"HEDWIG_HUB": both.hub.address, "HEDWIG_ADMIN": both.hub.admin}
    with Terminal(admin, "console") as terminal:
        terminal.wait_for_line("hedwig>")
        terminal.type(f"sub {topic} reader 2")
        terminal.wait_for_line("open")
        terminal.type(f"pub {topic} hello, console")
        # The subscription shows it above the prompt while nobody types.
        terminal.wait_for_line(f"{topic} reader: message 1: hello, console")
        both.publish(topic, b"from elsewhere")
        terminal.wait_for_line(f"{topic} reader: message 2: from elsewhere")
        terminal.type(f"topic show {topic} --watch 0.2")
        terminal.wait_for_line("every 0.2 s: hedwig-admin topic show")
        terminal.press("C-c")
        terminal.wait_for_line("interrupted")
        terminal.wait_for(lambda lines: _last(lines) == "hedwig>", "the prompt, after Ctrl-C")
        terminal.press("never typed to its end")
        terminal.press("C-c")
        terminal.type(f"closesub {topic} reader")
        terminal.wait_for_line("closed")
        terminal.type("quit")
        terminal.wait_for_line("ended 0")
    # The console consumed each message that it showed.
    both.publish(topic, b"later")
    assert both.read(topic, "reader", 1) == [3]


def test_all_messages_come_through_a_small_window(topic: str, tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path / "narrow", "message_window=3") as narrow:
        narrow.admin.environment |= {"HEDWIG_HUB": narrow.hub.address}
        with Terminal(narrow.admin, "console") as terminal:
            terminal.wait_for_line("hedwig>")
            terminal.type(f"sub {topic} reader 2")
            terminal.wait_for_line("open")
            narrow.publish(topic, *(b"body %d" % number for number in range(1, 11)))
            terminal.wait_for_line(f"{topic} reader: message 10: body 10")
            terminal.type("quit")
            terminal.wait_for_line("ended 0")
        narrow.subscribe(topic, "other")
        narrow.publish(topic, *(b"body %d" % number for number in range(11, 31)))
        assert narrow.read(topic, "other", 20) == list(range(11, 31))


def test_history_stays_and_tab_completes(both: HubAndAdmin, topic: str, tmp_path: Path) -> None:
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
    admin.done("topic", "create", topic)
    with Terminal(admin, "console") as terminal:
        terminal.wait_for_line("hedwig>")
        terminal.type("topic list --limit 5")
        terminal.wait_for(
            lambda lines: sum(topic in line for line in lines) == 1 and _last(lines) == "hedwig>", "topic and prompt"
        )
        terminal.press("C-d")
        terminal.wait_for_line("ended 0")
    kept = tmp_path / "data" / "hedwig" / "console-history"
    assert kept.stat().st_mode & 0o777 == 0o600
    with Terminal(admin, "console") as terminal:
        terminal.wait_for_line("hedwig>")
        # The console reads the lines of earlier sessions while it shows the prompt already.
        terminal.wait_for(
            lambda lines: _last(lines) == "hedwig> topic list --limit 5" or _press_up(terminal), "the line before"
        )
        terminal.press("C-c")
        # Keys typed between two prompts are not lost, but the terminal shows them in its own way.
        terminal.wait_for(lambda lines: _last(lines) == "hedwig>", "another prompt")
        terminal.press("des", "Tab")
        terminal.wait_for_line("hedwig> describe")  # A blank follows, so the next key begins a new word.
        terminal.press("to", "Tab")
        terminal.wait_for_line("hedwig> describe topic")
        terminal.press(topic[:9], "Tab")
        terminal.wait_for_line(f"hedwig> describe topic {topic}")
        terminal.press("Enter")
        terminal.wait_for_line("subscription_count")
        terminal.type("history")
        terminal.wait_for(
            lambda lines: any(line.split()[1:4] == ["topic", "list", "--limit"] for line in lines), "history"
        )
        terminal.type("exit")
        terminal.wait_for_line("ended 0")


def test_a_question_is_asked_on_the_terminal_and_ctrl_c_refuses(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    with Terminal(admin, "console") as terminal:
        terminal.wait_for_line("hedwig>")
        terminal.type("topic delete news")
        terminal.wait_for_line("go on? [y/N]")
        terminal.press("C-c")
        terminal.wait_for_line("interrupted")
        terminal.type("topic delete news")
        terminal.wait_for(lambda lines: sum("go on? [y/N]" in line for line in lines) == 2, "the question, again")
        terminal.type("y")
        terminal.wait_for_line("deleted")
        terminal.wait_for(lambda lines: _last(lines) == "hedwig>", "the prompt, after the deletion")
        terminal.press("C-d")
        terminal.wait_for_line("ended 0")
    assert admin.count("persistence") == 0


def test_top_runs_in_the_console(both: HubAndAdmin, tmp_path: Path) -> None:
    with Terminal(both.admin, "console") as terminal:
        terminal.wait_for_line("hedwig>")
        terminal.type("top --every 0.2")
        terminal.wait_for_line("q quit")
        terminal.press("q")
        terminal.wait_for(lambda lines: _last(lines) == "hedwig>", "the prompt, after top")
        terminal.press("C-d")
        terminal.wait_for_line("ended 0")


def _press_up(terminal: Terminal) -> bool:
    terminal.press("Up")
    return False


def _last(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
