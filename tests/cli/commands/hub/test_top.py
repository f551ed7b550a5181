"""Prove what `top` shows of busy hubs, on a terminal of 80 columns and in a pipe."""

import itertools
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hedwig.cli.commands.hub.top_view import SORT_KEYS, TopOrder
from hedwig.cli.output.format_names import FORMATS
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from hedwig.operations.deployment.hub_survey import HubReading
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.admin import DEADLINE_S, Admin
from tests.cli.support.agreement import check_agreement
from tests.cli.support.command_tree import example_of
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.terminal import LINES, Terminal
from tests.hub.support.admin_client import AdminClient
from tests.support.servers import RunningServers


@pytest.fixture(scope="module")
def pair(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hubs; the first owns seven topics."""
    with Pair(servers, tmp_path_factory.mktemp("watched"), "cluster.rebalance_interval_s=0") as started:
        started.own(started.hubs[0], 7)
        yield started


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path_factory.mktemp("standalone")) as started:
        yield started


def _rows(admin: Admin, *arguments: str) -> list[Any]:
    return admin.done("top", "--count", "1", *arguments).rows


@contextmanager
def _watching(admin: Admin, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = admin.start("top", *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[Any]:
    """Yield the rows that a command writes, as they arrive. The time limit of the test ends it."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


# ------------------------------------------------------------------------------------------------------- in a pipe


def test_every_hub_of_a_cluster_is_a_row_each_time(pair: Pair) -> None:
    rows = pair.admin.done("top", "--count", "2", "--every", "0.2").rows
    names = sorted(hub.address for hub in pair.hubs)
    assert sorted(row["hub"] for row in rows) == sorted(names * 2)
    # On a busy machine a hub may answer late.
    assert {row["state"] for row in rows} <= {"serving", "late"}
    topics = {row["hub"]: row["topics"] for row in rows}
    assert topics[pair.hubs[0].address] == 7
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", row["at"]) for row in rows)


def test_example_runs(pair: Pair) -> None:
    assert pair.admin.done(*example_of(("top",))).out


def test_hubs_are_sorted_and_formats_agree(pair: Pair) -> None:
    by_topics = [row["hub"] for row in _rows(pair.admin, "--sort", "topics")]
    assert by_topics == [hub.address for hub in pair.hubs]
    assert [row["hub"] for row in _rows(pair.admin, "--sort", "topics", "--reverse")] == by_topics[::-1]
    check_agreement({output: pair.admin.done("top", "--count", "1", "-o", output).out for output in FORMATS})
    table = pair.admin.done("top", "--count", "2", "--every", "0.1", "-o", "table").out
    assert len(re.findall(r"^HUB +STATE", table, flags=re.MULTILINE)) == 2


def test_rates_are_those_since_the_last_time(standalone: HubAndAdmin) -> None:
    with _watching(standalone.admin, "--admin", standalone.hub.admin, "--every", "0.2") as process:
        rows = _lines(process)
        next(rows)
        standalone.publish("rates", *(b"x" for _ in range(20)))
        seen: list[Any] = []
        for row in rows:
            seen.append(row["publishes_per_s"])
            if sum(seen) and not row["publishes_per_s"]:
                break  # `top` reports the publishes once, and then none.
        assert min(seen) >= 0
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err.split()) == (ExitCode.INTERRUPTED, [b"interrupted"])


def test_lag_is_what_attached_subscriptions_have_not_consumed(standalone: HubAndAdmin) -> None:
    with standalone.client() as client:
        client.subscribe(Topic(b"behind"), SubscriberId(b"reader"), auto_consume=False)
        for _ in range(3):
            client.publish(Topic(b"behind"), b"x")
        (row,) = _rows(standalone.admin)
        assert (row["attached_subscriptions"], row["attached_lag_messages"]) == (1, 3)
    assert AdminClient(standalone.hub.admin).get("/load").keys() & {"attached_lag_messages"} == set()
    assert AdminClient(standalone.hub.admin).ask("GET", "/load?lag=perhaps").status == 400


def test_compare_and_sets_that_were_refused_are_counted(standalone: HubAndAdmin) -> None:
    admin = AdminClient(standalone.hub.admin)
    before = admin.get("/load")["since_start"]["metadata_conflicts"]
    standalone.admin.done("topic", "create", "made-by-hand")
    # The hub tries to create the record, and finds one.
    standalone.publish("made-by-hand", b"x")
    after = admin.get("/load")["since_start"]["metadata_conflicts"]
    assert after == before + 1
    metrics = admin.ask("GET", "/metrics").text
    assert f"\nhedwig_hub_metadata_conflicts_total {float(after)}\n" in metrics
    (row,) = _rows(standalone.admin)
    assert row["conflicts_per_s"] is not None


def test_the_standalone_hub_of_the_store_is_watched_without_a_cluster(standalone: HubAndAdmin) -> None:
    (row,) = _rows(standalone.admin)
    assert (row["hub"], row["state"]) == (standalone.hub.address, "serving"), "not the address of its admin endpoint"


def test_a_hub_that_says_what_hinders_it(standalone: HubAndAdmin) -> None:
    client = AdminClient(standalone.hub.admin)
    client.ask("POST", "/read-only?state=on")
    try:
        (row,) = _rows(standalone.admin)
    finally:
        client.ask("POST", "/read-only?state=off")
    assert (row["state"], "read-only" in row["why"]) == ("hindered", True)


def test_a_hub_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as both, _watching(both.admin, "--every", "0.1") as process:
        rows = _lines(process)
        assert next(rows)["state"] == "serving"
        both.hub.kill()
        silent = next(row for row in rows if row["state"] == "silent" and row["why"].startswith("Connection refused"))
        assert silent["topics"] is None
        both.start()
        again = next(row for row in rows if row["state"] == "serving")
        # Its counters began anew, so there is no rate.
        assert all(value is None or value >= 0 for name, value in again.items() if name.endswith("_per_s"))


def test_without_a_hub_it_says_what_to_name(admin: Admin) -> None:
    admin.done("metadata", "format")
    ran = admin.run("top", HEDWIG_CLUSTER="", HEDWIG_ADMIN="")
    assert (ran.code, ran.out) == (ExitCode.NOT_FOUND, "")
    assert "--cluster URL" in ran.err
    ran = admin.run("top", "--cluster", "zookeeper://127.0.0.1:1/x", "--timeout", "1")
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.UNAVAILABLE, 1)
    assert admin.run("top", "--sort", "colour").code == ExitCode.USAGE
    assert admin.run("top", "--columns", "colour", "--admin", "127.0.0.1:1").code == ExitCode.USAGE


# --------------------------------------------------------------------------------------------------- on a terminal


def test_a_terminal_shows_the_hubs_sorts_them_by_a_key_and_ends_with_q(pair: Pair) -> None:
    one, other = (hub.address for hub in pair.hubs)
    with Terminal(pair.admin, "top") as terminal:
        screen = terminal.wait_for(lambda lines: any(one in line for line in lines), "the hubs")
        assert screen[0].startswith("hedwig-admin top")
        assert "2 hubs" in screen[0]
        (header,) = (line for line in screen if line.startswith("HUB"))
        assert header.split() == ["HUB", "STATE", "TOPICS", "SUBS", "PUB/S", "DELIV/S", "LAG", "CAS-/S"]
        assert next(line for line in screen if line.startswith("all")).split()[1] == "7"
        assert {line.split()[1] for line in screen if line.startswith((one, other))} == {"serving"}
        assert "q quit" in screen[-1] or any("q quit" in line for line in screen)
        clock = screen[0].split()[2]
        terminal.wait_for(lambda lines: lines[0].split()[2:3] not in ([], [clock]), "it is drawn again")
        terminal.press("t")
        terminal.wait_for(lambda lines: "by topics" in lines[0] and _order(lines, one, other) == [one, other], "sorted")
        terminal.press("r")
        terminal.wait_for(
            lambda lines: "reversed" in lines[0] and _order(lines, one, other) == [other, one], "reversed"
        )
        terminal.press("q")
        ended = terminal.wait_for_line("ended 0")
        # The screen is as it was before.
        assert not any("hedwig-admin top" in line for line in ended)


def _order(lines: list[str], *hubs: str) -> list[str]:
    return [hub for line in lines for hub in hubs if line.startswith(f"{hub} ")]


def test_the_busiest_topics_stand_below_the_hubs(standalone: HubAndAdmin) -> None:
    with (
        standalone.client() as client,
        Terminal(standalone.admin, "top", "--topics", "3", "--every", "0.5") as terminal,
    ):
        client.subscribe(Topic(b"second"), SubscriberId(b"reader"), auto_consume=False)
        client.publish(Topic(b"second"), b"x")
        terminal.wait_for(lambda lines: _topic_row(lines, "second")[-1:] == ["1"], "the lag of a topic")

        def busiest_is_busy(lines: list[str]) -> bool:
            for _ in range(3):
                client.publish(Topic(b"busy"), b"x")
            below = [line for line in lines if line.startswith(("busy ", "second "))]
            return below[:1] == [line for line in below if line.startswith("busy ") and _rate(line) > 0]

        screen = terminal.wait_for(busiest_is_busy, "the busiest topic comes first")
        assert any(line.split() == ["TOPIC", "HUB", "SUBS", "PUB/S", "LAG"] for line in screen)
        terminal.press("q")
        terminal.wait_for_line("ended 0")
    assert standalone.admin.run("top", "--topics", "3").code == ExitCode.USAGE


def _topic_row(lines: list[str], topic: str) -> list[str]:
    return next((line.split() for line in lines if line.startswith(f"{topic} ")), [])


def _rate(line: str) -> float:
    rate = line.split()[-2]
    return 0.0 if rate == "-" else float(rate)


def test_a_hub_names_its_busy_topics(standalone: HubAndAdmin) -> None:
    client = AdminClient(standalone.hub.admin)
    standalone.publish("often", b"x")
    client.get("/busy")
    standalone.publish("seldom", b"x")
    standalone.publish("often", *(b"x" for _ in range(10)))
    answer = client.get("/busy?limit=1")
    assert [row["topic"] for row in answer["topics"]] == ["often"]
    assert answer["topics"][0]["publishes_per_s"] == pytest.approx(10 / answer["rates_over_s"], rel=0.1)
    assert {row["topic"] for row in client.get("/busy")["topics"]} >= {"often", "seldom"}
    assert client.ask("GET", "/busy?limit=none").status == 400


def test_ctrl_c_leaves_the_terminal_in_order(standalone: HubAndAdmin) -> None:
    with Terminal(standalone.admin, "top", "--every", "0.3") as terminal:
        terminal.wait_for_line("1 hub,")
        terminal.press("C-c")
        terminal.wait_for_line(f"ended {int(ExitCode.INTERRUPTED)}")


def test_keys_that_mean_nothing_change_nothing(standalone: HubAndAdmin) -> None:
    with Terminal(standalone.admin, "top", "--every", "0.2", "--sort", "lag") as terminal:
        terminal.wait_for_line("by lag")
        terminal.press("x", "Enter", "Up")
        terminal.press("r")
        terminal.wait_for_line("by lag reversed")
        terminal.press("q")
        terminal.wait_for_line("ended 0")


# ----------------------------------------------------------------------------------------------------- the picture


def _reading(hub: str, **numbers: float | None) -> HubReading:
    return HubReading(hub, "serving", None, **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", SORT_KEYS)
def test_order_puts_the_largest_first_and_what_is_not_known_last(key: str) -> None:
    field = SORT_KEYS[key]
    if field == "hub":
        hubs = [_reading("h:9"), _reading("h:10"), _reading("a:11")]
        assert [each.hub for each in TopOrder(key).sorted(hubs)] == ["a:11", "h:9", "h:10"]
        return
    hubs = [_reading("some", **{field: 2}), _reading("none", **{field: None}), _reading("most", **{field: 30})]
    assert [each.hub for each in TopOrder(key).sorted(hubs)] == ["most", "some", "none"]
    assert [each.hub for each in TopOrder(key, is_reversed=True).sorted(hubs)] == ["some", "most", "none"]


def test_picture_stays_within_the_terminal_whatever_the_numbers() -> None:
    from rich.console import Console

    from hedwig.cli.commands.hub.top_view import TopView

    numbers = (0, 9.99, 99.96, 12_345, 999_999, 1e6, 123456789, 9.9e14, None)
    fields = [field for field in SORT_KEYS.values() if field != "hub"]
    hubs = [
        _reading(f"a-hub-with-a-long-name-{index}.example:4080", **dict.fromkeys(fields, number))
        for index, number in enumerate(itertools.chain(numbers, numbers, numbers, numbers))
    ]
    console = Console(width=80, height=LINES, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(TopView(hubs, TopOrder(), "trouble " * 30, 1.0).render(80, LINES))
    lines = captured.get().splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80
    assert "and 18 more hubs" in lines[-2]
    assert not any("…" in line.split()[-1] for line in lines[4:-2])
