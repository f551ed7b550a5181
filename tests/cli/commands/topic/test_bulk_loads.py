"""Prove that a bulk load writes each good row once and names each bad one, whatever the form of the file."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support.admin import PROGRAM_TELLING_ITS_PEAK, Admin
from tests.cli.support.package_graph import check_package_graph

ROWS = [f"section/name-{n}" for n in range(1000)]


def _topics(admin: Admin) -> set[bytes]:
    return {name for (name,) in admin.query("SELECT topic FROM persistence")}


def _failures(result: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in result.read_text().splitlines()]
    return [line["failed"] for line in lines if "failed" in line]


def _plain(data: bytes) -> bytes:
    return data


def _gzip_members(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


@pytest.mark.parametrize("pack", [_plain, gzip.compress, _gzip_members], ids=["plain", "gzip", "gzip in two members"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""], ids=["newlines", "Windows", "no last newline"])
def test_first_column_is_the_topic(admin: Admin, pack: Callable[[bytes], bytes], end: str) -> None:
    # The load recognizes the form by the bytes, not by the name.
    source = admin.directory / "input.txt"
    source.write_bytes(
        pack("".join(f"{name}\t1.0\tmore{end or chr(10)}" for name in ROWS).encode()[: None if end else -1])
    )
    ran = admin.done("topic", "create", "-f", str(source), "-o", "json")
    assert _topics(admin) == {name.encode() for name in ROWS}
    summary = ran.json
    assert summary.pop("seconds") > 0
    assert summary.pop("rows_per_second") > 0
    assert summary == {
        "rows": 1000,
        "created": 1000,
        "existed": 0,
        "failed": 0,
        "resumed_after_line": None,
        "result_file": f"{source}.topic-create-result.ndjson",
    }


def test_first_two_columns_are_the_subscription(admin: Admin) -> None:
    source = admin.directory / "subscriptions.tsv"
    source.write_text("".join(f"t{n % 30}\ts{n}\tignored\t\t\n" for n in range(1000)))
    summary = admin.done("subscription", "create", "-f", str(source), "--message-bound", "7", "-o", "json").json
    assert (summary["created"], summary["topics_created"]) == (1000, 30)
    stored = admin.query("SELECT topic, subscriber FROM subscriptions")
    assert set(stored) == {(b"t%d" % (n % 30), b"s%d" % n) for n in range(1000)}
    assert admin.done("subscription", "show", "t1", "s1", "-o", "json").json["message_bound"] == 7


def test_standard_input_is_read_and_leaves_a_result_file_too(admin: Admin) -> None:
    ran = admin.run_apart("topic", "create", "-f", "-", "-o", "json", text="".join(f"{row}\n" for row in ROWS).encode())
    assert ran.code == 0, ran.err
    assert ran.json["created"] == 1000
    (result,) = admin.directory.glob("stdin-*.topic-create-result.ndjson")
    assert ran.json["result_file"] == result.name
    packed = admin.run_apart("topic", "create", "-f", "-", "-o", "json", text=gzip.compress(b"one\ntwo\n"))
    assert packed.json["created"] == 2


def test_repeated_rows_and_existing_ones_are_counted_and_no_error(admin: Admin) -> None:
    admin.done("topic", "create", *ROWS[:10])
    source = admin.directory / "input"
    source.write_text("".join(f"{row}\n" for row in ROWS * 3))
    summary = admin.done("topic", "create", "-f", str(source), "-o", "json").json
    assert (summary["created"], summary["existed"], summary["failed"]) == (990, 2010, 0)
    # The load has finished, so the same command begins anew.
    again = admin.done("topic", "create", "-f", str(source), "-o", "json").json
    assert (again["created"], again["existed"], again["resumed_after_line"]) == (0, 3000, None)


def test_bad_lines_are_named_and_the_rest_goes_on(admin: Admin) -> None:
    longest = b"x" * 8192
    lines = [
        b"good\ts",
        b"",
        b"\ts",
        longest + b"y\ts",
        longest + b"\t" + longest,
        b"alone",
        b"t\t",
        b"a\\b\ts",
        b"z" * 500_000,
    ]
    lines += [b"\\x78" * 8192 + b"\tescaped", b"last\ts\t" + b"ignored " * 100_000, b"end\ts"]
    source = admin.directory / "input"
    source.write_bytes(b"\n".join(lines))
    ran = admin.run("subscription", "create", "-f", str(source), "-o", "json")
    assert ran.code == 1
    assert (ran.json["created"], ran.json["failed"]) == (5, 7)
    made = set(admin.query("SELECT topic, subscriber FROM subscriptions"))
    good = {(b"good", b"s"), (longest, longest), (longest, b"escaped"), (b"last", b"s"), (b"end", b"s")}
    assert made == good
    failures = _failures(Path(ran.json["result_file"]))
    assert [(each["line"], str(each["reason"]).split(",")[0][:35]) for each in failures] == [
        (2, "the line is empty"),
        (3, "the first column is empty"),
        (4, "a topic has 1 to 8192 bytes"),
        (6, "there is no second column: a subscr"),
        (7, "a subscriber id has 1 to 8192 bytes"),
        (8, "a backslash in the name 'a\\b' must "),
        (9, "there is no second column: a subscr"),
    ]
    for line in (2, 3, 4, 6, 7, 8, 9):
        assert f"line {line} failed: " in ran.err
    assert ran.err.splitlines()[-1].startswith("error: subscription create: 7 of 12 rows failed; see ")


def test_many_failures_are_in_the_result_file_and_few_on_the_screen(admin: Admin) -> None:
    source = admin.directory / "input"
    source.write_text("\n" * 1000 + "good\n")
    ran = admin.run("topic", "create", "-f", str(source))
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 12
    assert len(_failures(Path(f"{source}.topic-create-result.ndjson"))) == 1000
    assert _topics(admin) == {b"good"}


def test_listed_names_can_be_loaded_again(admin: Admin, tmp_path: Path) -> None:
    names = [b"\xff\xfe", b"a\tb", b"a\nb", b"a\\b", b"\r", "ü".encode(), b" ", b"#"]
    typed = ["".join(f"\\x{byte:02x}" for byte in name) for name in names]
    admin.done("topic", "create", "--", *typed)
    listed = admin.done("topic", "list", "--all", "--no-header").out
    other = Admin(tmp_path, f"sqlite://{tmp_path}/other.db")
    assert other.run_apart("topic", "create", "-f", "-", text=listed.encode()).code == 0
    assert _topics(other) == set(names)


def test_empty_input_is_a_load_of_nothing(admin: Admin) -> None:
    source = admin.directory / "input"
    source.write_bytes(b"")
    assert admin.done("topic", "create", "-f", str(source), "-o", "json").json["rows"] == 0
    source.write_bytes(gzip.compress(b""))
    assert admin.done("topic", "create", "-f", str(source), "-o", "json").json["rows"] == 0


def test_progress_goes_to_standard_error_only(admin: Admin) -> None:
    source = admin.directory / "input"
    source.write_text("".join(f"{row}\n" for row in ROWS))
    ran = admin.run_apart("topic", "create", "-f", str(source), "-o", "ndjson")
    assert len(ran.rows) == 1
    assert ran.rows[0]["created"] == 1000


def test_larger_input_takes_no_more_memory(admin: Admin) -> None:
    def peak_kib(rows: int) -> int:
        source = admin.directory / f"input-{rows}"
        padding = b"\t" + b"ignored column " * 300 + b"\n"
        with source.open("wb") as file:
            # Also one line of 60 MB: the load does not hold a column that it ignores.
            file.writelines([b"long\t", *(b"x" * 1_000_000 for _ in range(60)), b"\n"])
            file.writelines(b"%d-%d" % (rows, row) + padding for row in range(rows))
        ran = admin.run_apart("topic", "create", "-f", str(source), program=PROGRAM_TELLING_ITS_PEAK)
        assert ran.code == 0, ran.err
        return int(ran.err.split()[-1])

    # 12,000 rows of 4.5 KB would take 54 MB of memory.
    assert abs(peak_kib(12_000) - peak_kib(600)) < 20_000
    assert admin.count("persistence") == 12_601


@pytest.mark.parametrize(
    "arguments", [("--batch-rows", "1"), ("--in-flight", "1"), ("--batch-rows", "7", "--in-flight", "64")]
)
def test_result_does_not_depend_on_the_shape_of_the_batches(admin: Admin, arguments: tuple[str, ...]) -> None:
    source = admin.directory / "input"
    source.write_text("".join(f"{row}\n" for row in [*ROWS[:200], *ROWS[:100], ""]))
    ran = admin.run("topic", "create", "-f", str(source), "-o", "json", *arguments)
    assert (ran.json["created"], ran.json["existed"], ran.json["failed"]) == (200, 100, 1)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_package_graph_loads_and_reads_back(admin: Admin) -> None:
    check_package_graph(admin)
