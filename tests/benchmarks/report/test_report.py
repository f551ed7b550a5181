"""Prove that `hedwig-bench report` shows what results say, in pages and pictures that need nothing else."""

import os
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.main import main
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.growth import rate_charts, stages_of
from hedwig.benchmarks.report.charts.latency import percentile_chart, percentile_table
from hedwig.benchmarks.report.charts.memory import memory_chart
from hedwig.benchmarks.report.command import report
from hedwig.benchmarks.report.compare.figures import good
from hedwig.benchmarks.report.findings.findings import findings
from hedwig.benchmarks.report.findings.verdicts import findings_table, leads, summary
from hedwig.benchmarks.report.page import Chart, Page, html, markdown_page
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.figures import is_enough, merged
from hedwig.benchmarks.runs.results import Measurement, Result, alike
from hedwig.benchmarks.runs.walls import wall_kind
from hedwig.benchmarks.runs.words import ms
from hedwig.benchmarks.stores.cases import MEMORY
from hedwig.benchmarks.suites.hub.stored_suite import FAIL_OVER
from hedwig.histograms import PERCENTILES
from tests.benchmarks.support.known_times import LONGER, timed
from tests.benchmarks.support.pictures import BLUE, GREEN, ORANGE, picture, share
from tests.benchmarks.support.recorded_results import (
    COMMITTED,
    OUT_OF_TIME,
    THREE_BACKENDS,
    changed,
    three_backends,
    wall,
)
from tests.checkout import CHECKOUT

_VOID = frozenset({"meta", "img", "br"})


class _Reader(HTMLParser):
    """Reads a page, and notes what it refers to; whatever is not closed in its turn is a fault."""

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
    """Return the directory of a report on a backend that met a wall."""
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
    assert len(inside) == len(beside) >= 10
    text = (made / "report.md").read_text()
    assert all(f"({path.name})" in text for path in made.glob("*.png"))


def test_the_terms_stand_above_all_tables(made: Path) -> None:
    for name, table in (("report.html", "<table>"), ("report.md", "\n|")):
        above = (made / name).read_text().split(table)[0]
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
            assert words in above, (name, words)


def test_each_backend_is_drawn_in_its_colour(made: Path) -> None:
    with Image.open(made / "rate-synced-1-read-owner-64-in-flight.png") as image:
        image.load()
        assert image.format == "PNG"
        assert (image.width, image.height) == (990, 645)
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
    ran = CliRunner().invoke(main, ["report", str(COMMITTED / "listing-sqlite.json"), "-o", str(page)])
    assert ran.exit_code == 0, ran.output
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"page.html", "page.md", "page-listing-seconds.png", "page-listing-memory.png"}
    assert "(page-listing-seconds.png)" in page.with_suffix(".md").read_text()


# ------------------------------------------------------------------------------------------------------ who was better


def _claims(measurements: Sequence[Measurement], hbase_factor: float) -> list[Measurement]:
    """Return the claims of ZooKeeper at a steady rate, and those of HBase at a known multiple of it."""
    factors = {"zookeeper": 1.0, "hbase": hbase_factor}
    return [
        replace(
            each,
            count=round((1000.0 + each.round) * factors[each.driver] * 100),
            seconds=100.0,
            histograms={},
            generator_cores=0.3,
            values=each.values | {"servers_cpu_s": 50.0},
        )
        for each in measurements
        if each.workload.name == "claim" and each.driver in factors
    ]


@pytest.mark.parametrize(
    ("factor", "better", "words"),
    [(4.0, "hbase", "HBase 4.00 ×"), (0.25, "zookeeper", "ZooKeeper 4.00 ×"), (1.0, None, "not told apart; ")],
)
def test_a_known_factor_is_found_for_whom_it_is(factor: float, better: str | None, words: str) -> None:
    found = findings("hedwig-bench metadata", _claims(three_backends().measurements, factor), "zookeeper", "hbase")
    assert len(found) == 2  # One for each number of topics.
    for each in found:
        assert each.better == better
        assert each.factor == pytest.approx(factor, rel=0.01)
        assert each.ratios == pytest.approx([factor] * 3, rel=0.01)
    for line in findings_table("", found).lines:
        assert line[4].startswith(words)
        assert "rounds" in line[4]


def test_one_round_is_no_verdict() -> None:
    claims = [each for each in _claims(three_backends().measurements, 4.0) if each.round == 1]
    found = findings("hedwig-bench metadata", claims, "zookeeper", "hbase")
    assert [each.better for each in found] == [None, None]
    assert findings_table("", found).lines[0][4] == "noise unknown; HBase 4.00 ×"
    assert "Without a winner: 2 since a single round does not tell the noise" in summary(found)
    assert leads(found, "synced", {3000}) == [
        "Where ZooKeeper is better by the rounds of one size alone (synced): nowhere, at 300 and 3,000 topics.",
        "Where HBase is better by the rounds of one size alone (synced): nowhere, at 300 and 3,000 topics.",
        "In a single round, which proves nothing, HBase was ahead (synced): at 3,000 topics in claim, 64 in "
        "flight (4.00 ×).",
    ]


def test_who_met_a_wall_was_not_better() -> None:
    claims = [
        wall(each, "zookeeper-1 ended: java.lang.OutOfMemoryError") if each.driver == "zookeeper" else each
        for each in _claims(three_backends().measurements, 0.25)
    ]
    (line, _) = findings_table("", found := findings("hedwig-bench metadata", claims, "zookeeper", "hbase")).lines
    assert [each.better for each in found] == ["hbase", "hbase"]
    assert line[2:6] == ["wall: zookeeper-1 ended: java.lang.OutOfMemoryError", "measured", "HBase", "a wall decides"]


def test_a_percentile_has_one_factor_wherever_the_page_tells_it() -> None:
    """12.5 over all and 1.25 in each round: no sentence and no table tells a mean of the rounds."""
    result = three_backends()
    result.environment["cpus"] = result.environment["cpus_usable"] = 8
    result.measurements = [
        timed(_calm(each), LONGER[each.driver][each.round])
        for each in result.measurements
        if each.driver in LONGER and each.workload.is_open_loop
    ]
    page = report_page([("x", result)])
    short, section = (each for each in page.sections if each.title in ("In short", "Who was better"))
    said = " ".join([*short.says, *section.says])
    assert "read-owner, 1,000/s offered (6 of 6 rounds, 12.50 to 12.50 × by size)" in said
    assert "at 300 topics in read-owner, 1,000/s offered (12.50 × over all, 1.25 – 1.25 within the rounds)" in said
    over_all, *by_size = section.tables
    assert over_all.lines[0][5] == "12.50 to 12.50 × by size"
    assert by_size
    for line in (line for table in by_size for line in table.lines):
        zookeeper, hbase = (float(cell.split()[0]) for cell in line[2:4])
        assert line[4] == f"HBase {zookeeper / hbase:.2f} × over all (rounds 1.25 – 1.25)"
    text = markdown_page(page, "")
    assert "0.08 (0.80 – 0.80)" in text  # In the table of all figures, where it is HBase's time ÷ ZooKeeper's.
    assert "1.25 ×" not in text


def _calm(each: Measurement) -> Measurement:
    """Return a measurement of a second, in which neither the client nor the machine was a limit."""
    values = each.values | {"servers_cpu_s": 0.5}
    return replace(each, seconds=1.0, errors=Counter(), generator_cores=0.3, values=values)


def test_the_figures_are_those_of_the_result(made: Path) -> None:
    text = (made / "report.md").read_text()
    groups = [
        group
        for group in alike(three_backends().measurements)
        if (group[0].driver, group[0].workload.topics, group[0].workload.name) == ("hbase", 3000, "read-owner")
    ]
    assert len(groups) == 2
    for group in groups:
        table = percentile_table("", [group])
        assert table is not None
        whole = merged(good(group), "response")
        shown = [ms(whole.percentile_us(at)) if is_enough(whole.count, at) else "–" for at in PERCENTILES]
        assert list(table.columns[3:11]) == [*(f"p{at:g}, ms" for at in (50, 75, 90, 95, 99, 99.9, 99.99)), "max, ms"]
        assert table.lines[0][2:11] == [f"{whole.count:,}", *shown, ms(whole.max_us)]
        assert shown[5:] == ["–", "–"]  # Of less than 10,000 operations, fewer than ten lie beyond it.
        assert "| " + " | ".join(table.lines[0][:11]) in text


# --------------------------------------------------------------------------------------------------------------- walls


def _sections(page: Page) -> dict[str, list[Chart]]:
    return {section.title: list(section.charts) for section in page.sections}


@pytest.mark.full
def test_walls_are_drawn_and_told_where_they_stood(made_of_walls: Path) -> None:
    text = (made_of_walls / "report.md").read_text()
    how_far = "the time for it was over: 6,825 of 69,930 records after 1.1 s"
    assert f"SQLite met a wall at 20,000 topics: {how_far}." in text
    assert f"| synced: fill, 20,000 topics × 2 | SQLite | 1 | this run's time limit | {how_far} |" in text
    result = Result.read(OUT_OF_TIME)
    (stage,) = stages_of(result.measurements)
    with_wall = {chart.name: chart for chart in rate_charts(stage, Palette())}
    fills = [each for each in result.measurements if each.workload.name != "fill" or each.wall is None]
    (other,) = stages_of(fills)
    without = {chart.name: chart for chart in rate_charts(other, Palette())}
    # A case that never came, because filling failed before, has its mark too.
    for name in ("rate-synced-2-fill", "rate-synced-2-claim-64-in-flight", "rate-synced-2-read-owner-64-in-flight"):
        assert with_wall[name].png != without[name].png
        assert share(picture(with_wall[name]), GREEN) > share(picture(without[name]), GREEN) + 0.001


def test_memory_up_to_a_wall_is_drawn() -> None:
    (stage,) = stages_of(Result.read(OUT_OF_TIME).measurements)
    chart = memory_chart(stage, Palette())
    assert chart is not None
    assert "20,000" in chart.says


def test_memory_is_what_lives_and_not_what_a_collector_has_touched() -> None:
    """Both sides end at the same 4 GiB, of which one has used all and the other a tenth; and one meets a wall."""

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
        restart.values["store_live_heap_bytes"] = live_mib << 20
        return [fill, restart]

    lost = step("zookeeper", 100_000, 0, 4200)[0]
    lost.wall = "zookeeper-1 lives, and its heap is full: 2,730 of 2,730 MiB in its old generation after a collection"
    lost.reported[MEMORY] = [{"server": "zookeeper-1", "heap_used_bytes": 3900 << 20}]
    measured = [
        *step("zookeeper", 10_000, 800, 4200),
        *step("hbase", 10_000, 80, 4200),
        lost,
        *step("hbase", 100_000, 90, 4200),
    ]
    (stage,) = stages_of(measured)
    chart = memory_chart(stage, Palette())
    assert chart is not None
    assert chart.title == "Live heap of the store after a full collection"
    assert "At 100,000 topics, heap alive after a full collection: HBase 90 MiB." in chart.says
    assert "At 100,000 topics, resident memory at the most: HBase 4.1 GiB." in chart.says
    assert "ZooKeeper met a wall at 100,000 topics" in chart.says
    assert "Hollow is the heap that was in use at a wall" in chart.says
    (other,) = stages_of([each for each in measured if each is not lost])
    without = memory_chart(other, Palette())
    assert without is not None
    assert share(picture(chart), ORANGE) > share(picture(without), ORANGE) + 0.001


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
    assert percentile_chart([behind], Palette(), name="x", title="x", subtitle="x") is None
    chart = percentile_chart(
        [behind, [replace(each, driver="sqlite", count=10**6) for each in group]],
        Palette(),
        name="x",
        title="x",
        subtitle="x",
    )
    assert chart is not None
    assert chart.says.endswith("Not drawn, because the offered load was not reached: HBase.")
    assert share(picture(chart), BLUE) == 0


# ----------------------------------------------------------------------------------------------------- kinds of results


def test_one_backend_alone_is_shown_without_a_winner(tmp_path: Path) -> None:
    def few(each: Measurement) -> Measurement | None:
        is_kept = each.driver == "hbase" and each.workload.topics == 300 and each.workload.name == "claim"
        return each if is_kept else None

    page = report_page([("x", Result.read(changed(THREE_BACKENDS, tmp_path / "one.json", few)))])
    assert page.title == "Metadata as topics grow: HBase"
    short = page.sections[0]
    assert short.title == "In short"
    assert short.says == [
        "What HBase can do with 300 topics, with 1 subscription each. What the operations are is said below; “64 in "
        "flight” is as many as that at once, as fast as it goes.",
        "Nothing stands beside something else here: there is HBase only.",
    ]
    assert not any(section.title == "Who was better" for section in page.sections)
    # The pictures of all rates and of memory are shown once, first.
    assert [chart.name for chart in short.charts] == ["overview-synced-1", "memory-synced-1"]
    names = [chart.name for chart in page.charts()]
    assert len(names) == len(set(names))
    charts = _sections(page)["Operations a second against topics: synced, 1 subscription a topic"]
    assert [chart.name for chart in charts] == ["rate-synced-1-claim-64-in-flight"]


@pytest.mark.full
def test_backends_in_files_of_their_own_are_held_against_each_other(tmp_path: Path) -> None:
    def of(backend: str) -> Result:
        result = three_backends()
        result.measurements = [
            each for each in result.measurements if each.driver == backend and each.workload.name == "claim"
        ]
        return result

    page = report_page([("zk.json", of("zookeeper")), ("hbase.json", of("hbase"))])
    titles = [section.title for section in page.sections[:3]]
    assert titles == ["In short", "Equal terms: what holds for every number below", "How to read it"]
    assert dict(page.sections[1].facts)["Result"].startswith("zk.json and hbase.json: hedwig-bench metadata")
    assert "Of 1 cases" in html(page) or "Of 1 case" in html(page)
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
        ("listing-sqlite", ["Whole listings: seconds"], "topic list --all -o ndjson"),
        (
            "takeover-80000-topics",
            ["A hub is killed: 80,000 topics, 4 hubs, metadata in HBase 2.6.1"],
            "published to once",
        ),
    ],
)
def test_each_kind_of_result_has_its_charts(name: str, titles: Sequence[str], words: str) -> None:
    page = report_page([(name, Result.read(COMMITTED / f"{name}.json"))])
    drawn = [chart.title for chart in page.charts()]
    assert set(titles) <= set(drawn)
    assert all(chart.says for chart in page.charts())
    assert words in html(page)
    assert words in markdown_page(page, "")


def test_a_fail_over_is_drawn_by_the_seconds_that_topics_were_away() -> None:
    def killed(on: str, serves_s: float, all_s: float) -> Measurement:
        workload = Workload(name=FAIL_OVER, topics=1000, sample=100, operations=100, in_flight=100)
        values = {"hub_serves_s": serves_s, "all_served_s": all_s}
        return Measurement(workload=workload, driver="raw", on=on, round=1, count=100, seconds=0.5, values=values)

    result = Result.read(COMMITTED / "hub-publish-50-topics.json")
    result.measurements = [killed("zookeeper", 1.5, 3.5), killed("hbase", 1.4, 7.25)]
    all_served, serves = report_page([("x", result)]).charts()
    assert all_served.title == "fail-over: seconds until all topics were served"
    assert "raw, ZooKeeper: 3.5 s" in all_served.says
    assert "7.2 s" in all_served.says
    assert serves.title == "fail-over: seconds until the hub served again"
    assert "1.5 s" in serves.says
    for colour in (BLUE, ORANGE):
        assert share(picture(all_served), colour) > 0.005
    assert not any("operations/s" in chart.title for chart in (all_served, serves))


# --------------------------------------------------------------------------------------------------------- the command


def test_the_example_in_the_help_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "benchmarks" / "results" / "listing-sqlite.json"
    result.parent.mkdir(parents=True)
    result.write_bytes((COMMITTED / "listing-sqlite.json").read_bytes())
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
    assert "metadata-1: hedwig-bench metadata" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_library_that_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    ran = CliRunner().invoke(main, ["report", str(COMMITTED / "listing-sqlite.json"), "-o", str(tmp_path / "out")])
    assert ran.exit_code == 2
    (line,) = ran.output.splitlines()
    assert line.startswith(f"Error: reports need the library {library};")
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
    there = tmp_path / "result.json"
    there.write_bytes((COMMITTED / "listing-sqlite.json").read_bytes())
    ran = CliRunner().invoke(main, ["report", str(there), "-o", str(there)])
    assert ran.exit_code == 1
    assert "is a file, and no page" in ran.output
    assert there.read_bytes() == (COMMITTED / "listing-sqlite.json").read_bytes()
