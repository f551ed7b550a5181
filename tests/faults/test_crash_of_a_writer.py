"""Prove that acknowledged writes survive a kill -9 of the writer, and that its unfinished ones harm no other process.

Properties: no acknowledged write lost; a version never repeats.
"""

from pathlib import Path
from typing import Final

import pytest

from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.versions import ANY, NEW
from tests.faults.support.numbers import number_of
from tests.faults.support.raw import assert_stored
from tests.faults.support.waiting import until
from tests.faults.support.worker import door_of
from tests.faults.support.workforce import set_off, workers

TOPICS: Final = 16


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param(300, id="quick"),
        pytest.param(2000, id="full", marks=[pytest.mark.full, pytest.mark.timeout(600)]),
    ],
)
async def test_acknowledged_writes_survive_kill_9_of_their_writer(
    writes: int, subject: Subject, clients: Clients, names: Names, tmp_path: Path
) -> None:
    """Kill a process that has many writes in flight, twice, and read all records by a new client after each time."""
    for round_ in range(2):
        topics = [names(b"%d-%0*d" % (round_, index + 1, index)).decode() for index in range(TOPICS)]
        folder = tmp_path / str(round_)
        folder.mkdir()
        with workers("keep_writing", [{"url": subject.url, "topics": topics}], folder) as (worker,):
            set_off([worker])
            await until(lambda worker=worker: worker.count("done") >= writes // 2, "half of the writes")  # type: ignore[misc]
            worker.kill()
        begun: dict[str, int] = dict.fromkeys(topics, 0)
        done: dict[str, tuple[int, str | None]] = dict.fromkeys(topics, (0, None))
        for fact in worker.facts():
            if fact["task"] == "begin":
                begun[fact["topic"]] = fact["number"]
            else:
                done[fact["topic"]] = fact["number"], fact["version"]
        assert any(begun[topic] > done[topic][0] for topic in topics), "it was killed in the middle"
        assert worker.process.returncode == -9

        store = await clients.open(subject)
        probe = await clients.probe(subject)
        for topic in topics:
            door = door_of(topic)
            key = door.key(topic.encode())
            record = await door.read(store, key)
            number, version = done[topic]
            assert (0 if record is None else number_of(record.value)) in (number, begun[topic])
            if record is not None:
                if number_of(record.value) == number:
                    assert str(record.version) == version
                await assert_stored(probe, door, key, number_of(record.value), record.version)
            # Nothing that the dead process left behind holds up the next writer.
            await door.write(store, key, door.value(10**6), NEW if record is None else record.version)
            await door.delete(store, key, ANY)
