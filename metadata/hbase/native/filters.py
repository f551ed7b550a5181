"""Filters: which rows a region server leaves out of a scan."""

from typing import Final

from hedwig.metadata.hbase.driver import ScanRange
from hedwig.metadata.hbase.native.hbase_pb2 import (
    EQUAL,
    BinaryComparator,
    ByteArrayComparable,
    Comparator,
    CompareFilter,
    Filter,
    FilterList,
    RegexStringComparator,
    RowFilter,
    SingleColumnValueFilter,
)

__all__ = ["filter_of"]

_PACKAGE: Final = "org.apache.hadoop.hbase.filter."
_BYTE_FOR_BYTE: Final = "ISO-8859-1"
"""The character set in which each byte is one character, so that a pattern can name any byte."""

_DOT_IS_ANY: Final = 32


def filter_of(rows: ScanRange) -> Filter | None:
    """Return the filter that lets the rows of a range pass; None if all do."""
    if rows.marked is None:
        return None
    filters = [_named(rows.name_prefix)] if rows.name_prefix else []
    prefix = BinaryComparator(comparable=ByteArrayComparable(value=rows.marked[1]))
    filters.append(_valued(rows.marked[0], _comparator("BinaryPrefixComparator", prefix.SerializeToString())))
    if rows.containing is not None:
        filters.append(_valued(rows.containing[0], _matching(rows.containing[1])))
    if len(filters) == 1:
        return filters[0]
    return _filter("FilterList", FilterList(operator=FilterList.MUST_PASS_ALL, filters=filters).SerializeToString())


def _valued(column: bytes, comparator: Comparator) -> Filter:
    """Return the filter that lets a row pass if the value of a column does."""
    family, _, qualifier = column.partition(b":")
    passes = SingleColumnValueFilter(
        column_family=family,
        column_qualifier=qualifier,
        compare_op=EQUAL,
        comparator=comparator,
        filter_if_missing=True,
        latest_version_only=True,
    )
    return _filter("SingleColumnValueFilter", passes.SerializeToString())


def _named(prefix: bytes) -> Filter:
    compare = CompareFilter(compare_op=EQUAL, comparator=_matching(prefix, "^.{4}"))
    return _filter("RowFilter", RowFilter(compare_filter=compare).SerializeToString())


def _matching(content: bytes, before: str = "") -> Comparator:
    """Return the comparator of what has these bytes somewhere, or behind what matches `before`."""
    pattern = before + "".join(f"\\x{byte:02x}" for byte in content)
    regex = RegexStringComparator(pattern=pattern, pattern_flags=_DOT_IS_ANY, charset=_BYTE_FOR_BYTE)
    return _comparator("RegexStringComparator", regex.SerializeToString())


def _filter(name: str, content: bytes) -> Filter:
    return Filter(name=_PACKAGE + name, serialized_filter=content)


def _comparator(name: str, content: bytes) -> Comparator:
    return Comparator(name=_PACKAGE + name, serialized_comparator=content)
