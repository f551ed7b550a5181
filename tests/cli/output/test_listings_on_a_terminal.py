"""Prove that a listing into a file shows its progress on the terminal, and a listing on the terminal shows itself."""

import os

from tests.cli.support.admin import Admin
from tests.cli.support.terminal import Terminal

_CHUNK = 1 << 16


def test_listing_into_a_file_shows_how_far_it_has_come(admin: Admin) -> None:
    admin.insert_topics(20_000)
    pipe = admin.directory / "pipe"
    os.mkfifo(pipe)
    # Nobody reads yet, so the listing stops as soon as the pipe is full.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with Terminal(admin, "topic", "list", "--all", "-o", "ndjson", into=pipe) as terminal:
        screen = terminal.wait_for_line("topics/s")
        assert any(line.startswith("listing") and " topics, " in line for line in screen)
        os.set_blocking(reader, True)
        lines = 0
        while chunk := os.read(reader, _CHUNK):
            lines += chunk.count(b"\n")
        os.close(reader)
        assert lines == 20_000
        screen = terminal.wait_for_line("ended 0")
        assert not any("topics/s" in line for line in screen), "the bar goes when the listing is over"


def test_listing_on_the_terminal_shows_nothing_but_itself(admin: Admin) -> None:
    admin.done("topic", "create", "a", "b")
    with Terminal(admin, "topic", "list") as terminal:
        screen = terminal.wait_for_line("ended 0")
        assert [line for line in screen if line] == ["TOPIC", "a", "b", "ended 0"]


def test_records_are_counted_before_the_eyes_of_whoever_waits(admin: Admin) -> None:
    admin.done("topic", "create", "a", "b")
    with Terminal(admin, "metadata", "stats", into=admin.directory / "stats") as terminal:
        assert [line for line in terminal.wait_for_line("ended 0") if line] == ["ended 0"]
    assert "persistence    2" in (admin.directory / "stats").read_text()
