"""Prove how many tasks write a table whose number of rows is known."""

import pytest

from hedwig.pipeline.source.writing import tasks_to_write


@pytest.mark.parametrize(
    ("rows", "processors", "tasks"),
    [
        (0, 2, 1),
        (1, 64, 1),
        (5_001, 64, 2),
        (30_000, 2, 2),
        (600_000, 2, 3),
        (10_000_000, 2, 40),
        (600_000, 64, 64),
        (200_000, 64, 40),
    ],
)
def test_processors_are_kept_busy_and_tasks_are_neither_long_nor_idle(rows: int, processors: int, tasks: int) -> None:
    assert tasks_to_write(rows, processors) == tasks
