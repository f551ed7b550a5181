"""Prove what a job writes where: its result on standard output, the rest on standard error, or nothing else."""

import json
import logging
import warnings
from pathlib import Path

import pytest
from msgpack import packb

from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.model import LedgerRanges, Topic, UnknownFields
from hedwig.pipeline.command import Job
from hedwig.pipeline.main import jobs
from hedwig.pipeline.output import write_result
from hedwig.versions import NEW
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import new_store, with_store

LOST = "1 records of ledgers have fields of a newer release of Hedwig"


@pytest.fixture
def lossy(run: Run, tmp_path: Path) -> Path:
    """A snapshot that calls for a warning."""
    source = new_store(tmp_path, "source")

    async def fill(store: MetadataStore) -> None:
        newer = LedgerRanges(unknown=UnknownFields("msgpack", packb({"zz": 1})))
        await store.persistence.write(Topic(b"newer"), newer, NEW)

    with_store(source, fill)
    run("snapshot", source, tmp_path / "lossy")
    return tmp_path / "lossy"


def test_a_submitted_job_says_nothing_but_its_result(
    lossy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    target = new_store(tmp_path, "target")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    progress = Job.progress

    def noisily(job: Job, *arguments: object, **how: object) -> object:
        logging.getLogger("kazoo.client").warning("a library says something")
        warnings.warn("another one, too", UserWarning, stacklevel=1)
        return progress(job, *arguments, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Job, "progress", noisily)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert jobs.run_line(["restore", str(lossy), target, "--json"]) == ExitCode.DONE
    out, err = capfd.readouterr()
    assert err == ""
    (warning,) = json.loads(out)["warnings"]
    assert warning.startswith(LOST)


def test_people_are_warned_beside_the_result(lossy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = new_store(tmp_path, "target")
    capfd.readouterr()
    assert jobs.run_line(["restore", str(lossy), target]) == ExitCode.DONE
    out, err = capfd.readouterr()
    assert "warnings" not in out
    assert f"warning: {LOST}" in err


def test_a_job_that_fails_still_says_what_it_warned_of(
    lossy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = new_store(tmp_path, "target")
    next((lossy / "ledgers").glob("*.parquet")).unlink()
    capfd.readouterr()
    assert jobs.run_line(["restore", str(lossy), target, "--json"]) == ExitCode.FAILED
    out, err = capfd.readouterr()
    assert out == ""
    said = [line for line in err.splitlines() if line.startswith(("warning: ", "error: "))]
    assert len(said) == 2
    assert said[0].startswith(f"warning: {LOST}")
    assert "files are missing or were added" in said[1]


def test_lists_of_records_have_headings_and_nothing_is_said_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    result = {
        "open_ledgers": {"open": 3, "told": 3, "untold": []},
        "fan_outs": [
            {"topic": "news", "subscriptions": 12_000, "why": None},
            {"topic": "a longer name", "subscriptions": 7, "why": None},
        ],
        "warnings": ["one", "two"],
        "lags": [],
    }
    write_result(result, as_json=False)
    assert capfd.readouterr().out.splitlines() == [
        "open_ledgers  open: 3",
        "              told: 3",
        "              untold: none",
        "fan_outs      TOPIC          SUBSCRIPTIONS",
        "              news           12,000",
        "              a longer name  7",
        "warnings      one",
        "              two",
        "lags          -",
    ]
