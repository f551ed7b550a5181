"""Prove that `hedwig-bench report` shows the results in pages and pictures that need no other files."""

import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.measured import percentile_chart
from hedwig.benchmarks.charts.sections import Chart
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.command import report
from hedwig.benchmarks.report.page import Page, html
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Measurement, Result, alike
from hedwig.benchmarks.runs.walls import wall_kind
from hedwig.benchmarks.stores.cases import MEMORY
from hedwig.benchmarks.suites.hub.stored_sizes import FAIL_OVER
from hedwig.benchmarks.suites.metadata.charts import metadata_sections
from hedwig.histograms import Histogram
from tests.benchmarks.support.pictures import BLUE, GREEN, ORANGE, picture, share
from tests.benchmarks.support.recorded_results import (
    COMMITTED,
    OUT_OF_TIME,
    THREE_BACKENDS,
    changed,
    three_backends,
)
from tests.support.checkout import CHECKOUT

_VOID = frozenset({"meta", "img", "br"})


class _Reader(HTMLParser):
    """Reads a page, and records its references. A tag that is not closed in its turn is a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.images: list[dict[str, str]] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.ids |= {values["id"]} if "id" in values else set()
        self.links += [values[name] for name in ("href", "srcset", "action") if name in values]
        if tag == "img":
            self.images.append(values)
        elif "src" in values:
            self.links.append(values["src"])
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a report on three backends."""
    return _made(THREE_BACKENDS, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def made_of_walls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a report on a backend that ran into a wall."""
    return _made(OUT_OF_TIME, tmp_path_factory.mktemp("walls"))


def _made(result: Path, directory: Path) -> Path:
    ran = CliRunner().invoke(main, ["report", str(result), "-o", str(directory)])
    assert ran.exit_code == 0, ran.output
    assert sorted(ran.output.split()) == sorted(str(path) for path in directory.iterdir())
    return directory


def _read(path: Path) -> tuple[_Reader, str]:
    text = path.read_text()
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader, text


def test_the_page_needs_nothing_but_itself(made: Path) -> None:
    reader, text = _read(made / "report.html")
    assert not reader.faults
    assert not reader.open
    assert not reader.tags & {"script", "link", "iframe", "object"}
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert "url(" not in text
    assert "http" not in text
    assert all(image["src"].startswith("data:image/png;base64,") for image in reader.images)


def test_the_page_has_a_width_of_its_own_on_every_screen(made: Path) -> None:
    reader, text = _read(made / "report.html")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert text.count("<table>") == text.count('<div class="wide"><table>') > 0
    for image in reader.images:
        assert image["alt"]
        assert int(image["width"]) > 0


def test_the_pictures_in_the_page_are_those_beside_it(made: Path) -> None:
    reader, _ = _read(made / "report.html")
    inside = [b64decode(image["src"].partition(",")[2]) for image in reader.images]
    beside = {path.read_bytes() for path in made.glob("*.png")}
    assert set(inside) == beside
    assert len(inside) == len(beside) >= 8


def test_the_terms_stand_above_all_tables(made: Path) -> None:
    above = (made / "report.html").read_text().split("<table>")[0]
    for words in (
        "an acknowledged write is on the disk; 1,024 MiB of heap in all for each backend",
        "log forced to the disk",
        "hbase.wal.hsync=true",
        "regionserver 640 MiB",
        "2 processors (AMD EPYC), 24 GiB",
        "CPython 3.11.7, SQLite 3.40.1",
        "502ea9659fc0",
        "rounds: 3",
        "the run was ended early",
    ):
        assert words in above, words


def test_each_backend_is_drawn_in_its_colour(made: Path) -> None:
    with Image.open(made / "overview-synced-1.png") as image:
        image.load()
        assert image.format == "PNG"
        for colour in (BLUE, ORANGE, GREEN):
            assert 0.001 < share(image, colour) < 0.1
    with Image.open(made / "restart-synced-1.png") as image:
        # SQLite has no server to restart.
        assert share(image, BLUE) > 0.001
        assert share(image, GREEN) < 0.0001


def test_all_pictures_show_something(made: Path) -> None:
    for path in made.glob("*.png"):
        with Image.open(path) as image:
            image.verify()
        with Image.open(path) as image:
            colours = image.convert("RGB").getcolors(1 << 20)
        assert colours is not None
        assert len(colours) > 20, path
        assert max(count for count, _ in colours) < 0.97 * sum(count for count, _ in colours), path


@pytest.mark.full
def test_the_same_results_make_the_same_bytes_whatever_the_users_own_style_is(
    made_of_walls: Path, tmp_path: Path
) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.facecolor: black\nsavefig.dpi: 40\n")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    command = [sys.executable, "-m", "hedwig.benchmarks", "report", str(OUT_OF_TIME), "-o", str(tmp_path / "again")]
    subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, timeout=280, capture_output=True)
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert again == {path.name: path.read_bytes() for path in made_of_walls.iterdir()}


def test_a_page_with_a_name_has_its_pictures_beside_it(tmp_path: Path) -> None:
    page = tmp_path / "some" / "page.html"
    ran = CliRunner().invoke(main, ["report", str(COMMITTED / "listing-sqlite.json.xz"), "-o", str(page)])
    assert ran.exit_code == 0, ran.output
    names = {path.name for path in page.parent.iterdir()}
    charts = report_page([("x", Result.read(COMMITTED / "listing-sqlite.json.xz"))]).charts()
    assert charts
    assert names == {"page.html", *(f"page-{chart.name}.png" for chart in charts)}


# --------------------------------------------------------------------------------------------------------------- walls


def _sections(page: Page) -> dict[str, list[Chart]]:
    return {section.title: list(section.charts) for section in page.sections}


def _chart(measurements: Sequence[Measurement], name: str) -> Chart:
    result = three_backends()
    result.measurements = list(measurements)
    return next(each for section in metadata_sections(result) for each in section.charts if each.name == name)


@pytest.mark.full
def test_walls_are_drawn_and_told_where_they_stood(made_of_walls: Path) -> None:
    text = (made_of_walls / "report.html").read_text()
    assert "the time for it was over: 6,825 of 69,930 records after 1.1 s" in text
    measured = Result.read(OUT_OF_TIME).measurements
    fills = [each for each in measured if each.workload.name != "fill" or each.wall is None]
    # A case that never ran because filling failed has its mark, too.
    with_wall, without = (picture(_chart(each, "overview-synced-2")) for each in (measured, fills))
    assert share(with_wall, GREEN) > share(without, GREEN) + 0.001


def test_memory_is_what_lives_and_not_what_a_collector_has_touched() -> None:
    """Both sides end at the same 4 GiB. One uses all of it and meets a wall, the other uses a tenth."""

    def step(backend: str, topics: int, live_mib: int, resident_mib: int) -> list[Measurement]:
        fill, restart = (
            Measurement(
                workload=Workload(name=name, mix={"create": 1.0}, topics=topics, subscribers=1),
                driver=backend,
                on="synced",
                round=1,
                count=1,
                seconds=1.0,
            )
            for name in ("fill", "restart")
        )
        fill.values["store_rss_bytes_max"] = resident_mib << 20
        restart.values |= {"store_live_heap_bytes": live_mib << 20, "all_read_s": 1.0}
        return [fill, restart]

    lost = step("zookeeper", 100_000, 0, 4200)[0]
    lost.wall = "zookeeper-1 lives, and its heap is full: 966 of 1,024 MiB after a collection"
    lost.reported[MEMORY] = [{"server": "zookeeper-1", "heap_used_bytes": 3900 << 20}]
    others = [
        *step("zookeeper", 10_000, 800, 4200),
        *step("hbase", 10_000, 80, 4200),
        *step("hbase", 100_000, 90, 4200),
    ]
    name = "memory-synced-1"
    chart, without = (_chart(each, name) for each in ([*others, lost], others))
    assert chart.title == "Live heap of the store after a full collection"
    assert share(picture(chart), ORANGE) > share(picture(without), ORANGE) + 0.001
    more = [replace(each, values={**each.values, "store_live_heap_bytes": 4000 << 20}) for each in others]
    assert _chart(more, name).png != without.png


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("zookeeper-1 ended: java.lang.OutOfMemoryError: Java heap space", "memory"),
        ("a reply of 4,194,305 bytes: the packet is longer than jute.maxbuffer", "packet limit"),
        ("regionserver-1 ended: java.lang.OutOfMemoryError: GC overhead limit exceeded", "memory"),
        ("os::commit_memory(0x0, 65536, 0) failed; error='Cannot allocate memory'", "memory"),
        ("MetadataUnavailableError: the memory store is above its high water mark: heap use 0.4", "failed"),
        ("the time for it was over", "this run's time limit"),
        ("not all of 200 topics could be read 600 s after the restart", "this run's time limit"),
        ("nothing was finished in time", "this run's time limit"),
        ("MetadataUnavailableError: the connection timed out", "no answer in time"),
        ("zookeeper-1 ended; the load generator did not say 'summary' in time", "server ended"),
        ("all failed: 12 × MetadataUnavailableError", "all failed"),
        ("regionserver-1 ended", "server ended"),
        ("a record is missing", "failed"),
    ],
)
def test_a_wall_has_a_kind(why: str, kind: str) -> None:
    assert wall_kind(why) == kind


def test_times_of_a_load_that_was_not_reached_are_not_drawn() -> None:
    group = next(
        group
        for group in alike(three_backends().measurements)
        if group[0].workload.is_open_loop and group[0].driver == "hbase"
    )
    behind = [replace(each, count=each.count // 2) for each in group]
    kept = [replace(each, driver="sqlite", count=10**6) for each in group]

    def drawn(*groups: Sequence[Measurement]) -> Chart | None:
        return percentile_chart("x", "x", "x", groups, Palette(), side=lambda each: each.driver)

    assert drawn(behind) is None
    chart = drawn(behind, kept)
    assert chart is not None
    assert "offered load not reached: hbase" in chart.subtitle
    assert share(picture(chart), BLUE) == 0
    assert share(picture(chart), GREEN) > 0.001


def test_a_stall_and_failures_are_drawn_second_by_second() -> None:
    def measured(response_us: int, failed: int) -> list[Measurement]:
        times = Histogram()
        times.record(response_us, 100)
        second = {"finished": 100, "failed": failed, "response": times.encode()}
        workload = Workload(name="claim", mix={"claim": 1.0}, topics=100, subscribers=1, seconds=4.0, warmup_s=0.0)
        series = {number: dict(second) for number in range(4)}
        return [
            Measurement(workload=workload, driver="hbase", on="synced", round=1, count=400, seconds=4.0, series=series)
        ]

    calm, failing = (_chart(measured(1000, failed), "series-synced-1") for failed in (0, 5))
    # Failures that never happened get no axes, and so take no room.
    assert failing.height > calm.height
    assert _chart(measured(900_000, 0), "series-synced-1").png != calm.png


# ----------------------------------------------------------------------------------------------------- kinds of results


def test_one_backend_alone_is_held_against_none(tmp_path: Path) -> None:
    def few(each: Measurement) -> Measurement | None:
        is_kept = each.driver == "hbase" and each.workload.topics == 300 and each.workload.name == "claim"
        return each if is_kept else None

    page = report_page([("x", Result.read(changed(THREE_BACKENDS, tmp_path / "one.json", few)))])
    assert page.title == "What was measured: hedwig-bench metadata"
    titles = [section.title for section in page.sections]
    assert titles[:2] == ["Equal terms: what holds for every number below", "How to read it"]
    assert not any("against the other" in title for title in titles)
    names = [chart.name for chart in page.charts()]
    assert len(names) == len(set(names))
    assert "overview-synced-1" in names


@pytest.mark.full
def test_backends_in_files_of_their_own_are_held_against_each_other(tmp_path: Path) -> None:
    def of(backend: str) -> Result:
        result = three_backends()
        result.measurements = [
            each for each in result.measurements if each.driver == backend and each.workload.name == "claim"
        ]
        return result

    page = report_page([("zk.json", of("zookeeper")), ("hbase.json", of("hbase"))])
    assert dict(page.sections[0].facts)["Result"].startswith("zk.json and hbase.json: hedwig-bench metadata")
    assert "HBase ÷ ZooKeeper" in html(page)
    other = of("hbase")
    other.terms["sizes"]["heap_mb"] = 9999
    apart = report_page([("zk.json", of("zookeeper")), ("hbase.json", other)])
    assert sum(section.title != "How to read it" and bool(section.facts) for section in apart.sections) == 2
    names = [chart.name for chart in apart.charts()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "titles", "words"),
    [
        pytest.param("cas-update", ["update: operations a second"], "native", marks=pytest.mark.full),
        ("hub-publish-50-topics", ["publish: operations/s", "publish: response times"], "5,000/s offered"),
        ("hub-memory-of-a-million-topics", ["idle-topics: bytes for each topic"], "664"),
        ("listing-sqlite", ["topic list --all -o ndjson: s"], "topic list --all -o ndjson"),
        (
            "takeover-80000-topics",
            ["A hub is killed: 80,000 topics, 4 hubs, metadata in HBase 2.6.1"],
            "failed attempts",
        ),
    ],
)
def test_each_kind_of_result_has_its_charts(name: str, titles: Sequence[str], words: str) -> None:
    page = report_page([(name, Result.read(COMMITTED / f"{name}.json.xz"))])
    drawn = [chart.title for chart in page.charts()]
    assert set(titles) <= set(drawn)
    assert words in html(page)


def test_a_fail_over_is_drawn_by_the_seconds_that_topics_were_away() -> None:
    def killed(on: str, serves_s: float, all_s: float) -> Measurement:
        workload = Workload(name=FAIL_OVER, topics=1000, sample=100, operations=100, in_flight=100)
        values = {"hub_serves_s": serves_s, "all_served_s": all_s}
        return Measurement(workload=workload, driver="raw", on=on, round=1, count=100, seconds=0.5, values=values)

    result = Result.read(COMMITTED / "hub-publish-50-topics.json.xz")
    result.measurements = [killed("zookeeper", 1.5, 3.5), killed("hbase", 1.4, 7.25)]
    all_served, serves = report_page([("x", result)]).charts()
    assert all_served.title == "fail-over: s until all topics were served"
    assert serves.title == "fail-over: s until the hub served again"
    for colour in (BLUE, ORANGE):
        assert share(picture(all_served), colour) > 0.005
    assert not any("operations/s" in chart.title for chart in (all_served, serves))


# --------------------------------------------------------------------------------------------------------- the command


def test_the_example_in_the_help_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "benchmarks" / "results" / "listing-sqlite.json.xz"
    result.parent.mkdir(parents=True)
    result.write_bytes((COMMITTED / "listing-sqlite.json.xz").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert report.epilog is not None
    ran = CliRunner().invoke(main, report.epilog.removeprefix("Example: hedwig-bench ").split())
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "report" / "report.html").is_file()


@pytest.mark.full
def test_the_directory_of_a_run_is_its_result(tmp_path: Path) -> None:
    run = tmp_path / "metadata-1"
    run.mkdir()
    (run / "result.json").write_bytes(OUT_OF_TIME.read_bytes())
    ran = CliRunner().invoke(main, ["report", str(run), "-o", str(tmp_path / "out")])
    assert ran.exit_code == 0, ran.output
    assert "metadata-1: hedwig-bench metadata" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_library_that_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    ran = CliRunner().invoke(main, ["report", str(COMMITTED / "listing-sqlite.json.xz"), "-o", str(tmp_path / "out")])
    assert ran.exit_code == 2
    (line,) = ran.output.splitlines()
    assert line.startswith(f"error: reports need the library {library};")
    assert "pip install '.[benchmarks]'" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("", "cannot read"),
        ('{"format": 1}', "cannot read"),
        ('{"format": 2}', "this program reads 1"),
        ("empty", "has no measurements"),
    ],
)
def test_what_is_no_result_is_one_line_and_nothing_is_written(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "broken.json"
    if content == "empty":
        changed(THREE_BACKENDS, path, lambda _: None)
    elif content is not None:
        path.write_text(content)
    ran = CliRunner().invoke(main, ["report", str(path), "-o", str(tmp_path / "out")])
    assert ran.exit_code == 1
    (line,) = ran.output.splitlines()
    assert str(path) in line
    assert words in line
    assert not (tmp_path / "out").exists()


def test_a_report_does_not_take_the_place_of_another_file(tmp_path: Path) -> None:
    there = tmp_path / "result.json.xz"
    there.write_bytes((COMMITTED / "listing-sqlite.json.xz").read_bytes())
    ran = CliRunner().invoke(main, ["report", str(there), "-o", str(there)])
    assert ran.exit_code == 1
    assert "is a file, and no page" in ran.output
    assert there.read_bytes() == (COMMITTED / "listing-sqlite.json.xz").read_bytes()
