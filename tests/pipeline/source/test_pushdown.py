"""Prove that conditions on the topic become an exact range of names, and that Spark keeps all others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from hedwig.model import Topic
from hedwig.pipeline.source.plan import NameRange
from hedwig.pipeline.source.pushdown import narrowed

NAMES = st.lists(st.sampled_from([b"\x00", b"a", b"b", b"\xff"]), min_size=1, max_size=3).map(b"".join)
COMPARISONS: dict[type[Any], Any] = {
    EqualTo: lambda name, value: name == value,
    EqualNullSafe: lambda name, value: name == value,
    GreaterThan: lambda name, value: name > value,
    GreaterThanOrEqual: lambda name, value: name >= value,
    LessThan: lambda name, value: name < value,
    LessThanOrEqual: lambda name, value: name <= value,
}


@given(st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), NAMES), max_size=3), st.lists(NAMES), NAMES)
def test_names_that_are_left_are_those_that_fulfil_all(
    conditions: list[tuple[type[Any], bytes]], names: list[bytes], prefix: bytes
) -> None:
    filters: list[Filter] = [kind(("topic",), value) for kind, value in conditions]
    for before in (NameRange(), NameRange(prefix=prefix), NameRange(start=b"a", stop=b"b\xff")):
        left, rest = narrowed(before, filters)
        assert rest == []
        for name in names:
            fulfils = all(COMPARISONS[kind](name, value) for kind, value in conditions)
            assert left.wants(Topic(name)) == (before.wants(Topic(name)) and fulfils)
            if left.wants(Topic(name)):
                assert name.startswith(left.common)


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("subscriber",), b"s"),
        EqualTo(("state", "topic"), b"t"),
        EqualTo(("topic",), "text"),
        In(("topic",), (b"a", b"b")),
        IsNotNull(("topic",)),
        Not(EqualTo(("topic",), b"a")),
    ],
)
def test_other_conditions_stay_with_spark(condition: Filter) -> None:
    assert narrowed(NameRange(prefix=b"p"), [condition]) == (NameRange(prefix=b"p"), [condition])
