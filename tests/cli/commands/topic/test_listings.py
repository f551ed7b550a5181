"""Prove that listings come in pages that fit together exactly, in bounded memory, in every format."""

import base64
from collections.abc import Iterator

import pytest

from hedwig.names import parse_name
from tests.cli.support.admin import PROGRAM_TELLING_ITS_PEAK, Admin


def _pages(admin: Admin, *command: str, limit: int) -> Iterator[list[str]]:
    """Yield the names of one page after the other, following the page tokens."""
    noun = "topics" if command[0] == "topic" else "subscriptions"
    token: list[str] = []
    while True:
        page = admin.done(*command, "-o", "json", "--limit", str(limit), *token).json
        yield [row[noun.removesuffix("s") if noun == "topics" else "subscriber"] for row in page[noun]]
        if page["next_page_token"] is None:
            return
        token = ["--page-token", page["next_page_token"]]


def _odd_names(number: int) -> list[str]:
    return [f"\\x{(7 * n) % 256:02x}\\x00n{n}" if n % 3 else f"\\x{n % 256:02x}" for n in range(number)]


@pytest.mark.parametrize("limit", [1, 7, 33, 100, 1000])
def test_topic_pages_fit_together(admin: Admin, limit: int) -> None:
    admin.done("topic", "create", "--", *_odd_names(40))
    pages = list(_pages(admin, "topic", "list", limit=limit))
    listed = [parse_name(name) for page in pages for name in page]
    assert listed == sorted(parse_name(name) for name in _odd_names(40))
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


@pytest.mark.parametrize("limit", [1, 7, 40, 1000])
def test_subscription_pages_fit_together(admin: Admin, limit: int) -> None:
    lines = "".join(f"news\t{name}\n" for name in _odd_names(40))
    admin.done("subscription", "create", "-f", "-", "--result", f"{admin.directory}/result", text=lines)
    pages = list(_pages(admin, "subscription", "list", "news", limit=limit))
    assert [parse_name(name) for page in pages for name in page] == sorted(parse_name(name) for name in _odd_names(40))
    everything = admin.done("subscription", "list", "news", "--all", "-o", "ndjson").rows
    assert len(everything) == 40


def test_page_goes_on_exactly_when_topics_come_and_go(admin: Admin) -> None:
    admin.done("topic", "create", *(f"t{n:02}" for n in range(0, 40, 2)))
    pages = _pages(admin, "topic", "list", limit=5)
    assert next(pages) == ["t00", "t02", "t04", "t06", "t08"]
    admin.done("topic", "delete", "t08", "--yes")
    admin.done("topic", "create", "t07", "t09", "t11")
    assert next(pages) == ["t09", "t10", "t11", "t12", "t14"]


def test_token_of_another_listing_is_refused(admin: Admin) -> None:
    admin.done("topic", "create", "aa", "ab", "ba")
    admin.done("subscription", "create", "aa", "aa")
    token = admin.done("topic", "list", "--limit", "1", "--prefix", "a", "-o", "json").json["next_page_token"]
    assert admin.run("topic", "list", "--prefix", "a", "--page-token", token).code == 0
    for other in (("topic", "list"), ("subscription", "list", "aa", "--prefix", "a")):
        assert admin.run(*other, "--page-token", token).code == 2
    elsewhere = f"sqlite://{admin.directory}/other.db"
    admin.done("topic", "create", "aa", "ab", "--metadata", elsewhere)
    refused = admin.run("topic", "list", "--prefix", "a", "--page-token", token, "--metadata", elsewhere)
    assert (refused.code, refused.out) == (2, ""), "names of that store would be left out without a word"
    other_prefix = admin.run("topic", "list", "--prefix", "b", "--page-token", token)
    assert "the same store, spelt alike, the same topic and the same --prefix" in other_prefix.err
    for damaged in (token[:-1], token + "A", "", "?"):
        assert admin.run("topic", "list", "--prefix", "a", "--page-token", damaged).code == 2


def test_prefix_and_start(admin: Admin) -> None:
    admin.done("topic", "create", "a", "a/1", "a/2", "a\\xff", "b")
    assert [row["topic"] for row in admin.done("topic", "list", "--prefix", "a/", "-o", "ndjson").rows] == [
        "a/1",
        "a/2",
    ]
    after = admin.done("topic", "list", "--start-after", "a/1", "-o", "ndjson").rows
    assert [row["topic"] for row in after] == ["a/2", "a\\xff", "b"]
    assert admin.done("topic", "list", "--prefix", "nothing").out == "TOPIC\n"


def test_cut_is_told_in_every_format(admin: Admin) -> None:
    admin.done("topic", "create", "a", "b", "c")
    whole = admin.done("topic", "list", "--limit", "3", "-o", "json")
    assert whole.json["next_page_token"] is None
    token = admin.done("topic", "list", "--limit", "2", "-o", "json").json["next_page_token"]
    assert base64.urlsafe_b64decode(token + "==").endswith(b"b")
    table = admin.done("topic", "list", "--limit", "2")
    assert (table.out, token in table.err) == ("TOPIC\na\nb\n", True)
    lines = admin.done("topic", "list", "--limit", "2", "-o", "ndjson").rows
    assert lines == [{"topic": "a"}, {"topic": "b"}, {"next_page_token": token}]


def test_columns_choose_and_order_fields(admin: Admin) -> None:
    admin.done("topic", "create", "x\\xff")
    (row,) = admin.done("topic", "list", "--columns", "version,topic", "-o", "ndjson").rows
    assert list(row) == ["version", "topic", "topic_base64"]
    table = admin.done("topic", "list", "--columns", "version,topic", "--no-header").out
    assert table == f"{row['version']}  x\\xff\n"


@pytest.mark.parametrize(
    "forms",
    [
        pytest.param(("table", "json"), id="some"),
        pytest.param(("ndjson", "csv", "yaml"), id="others", marks=pytest.mark.full),
    ],
)
def test_more_topics_take_no_more_memory_in_any_format(forms: tuple[str, ...], admin: Admin) -> None:
    def peak_kib(form: str) -> int:
        program = PROGRAM_TELLING_ITS_PEAK
        ran = admin.run_apart("topic", "list", "--all", "-o", form, program=program, deadline_s=600)
        assert ran.code == 0, ran.err
        assert ran.out.count("topic-") == admin.count("persistence")
        return int(ran.err.split()[-1])

    admin.insert_topics(2_000)
    few = [peak_kib(form) for form in forms]
    # At 100 bytes each, they would take at least 20 MB of memory.
    admin.insert_topics(100_000, f"'{'long-' * 18}topic-' || (n + 1000000)")
    for form, before in zip(forms, few, strict=True):
        assert peak_kib(form) - before < 12_000, form
