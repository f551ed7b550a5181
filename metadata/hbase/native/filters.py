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
    marked = _marked(*rows.marked)
    if not rows.name_prefix:
        return marked
    both = FilterList(operator=FilterList.MUST_PASS_ALL, filters=[_named(rows.name_prefix), marked])
    return _filter("FilterList", both.SerializeToString())


def _marked(column: bytes, letter: bytes) -> Filter:
    family, _, qualifier = column.partition(b":")
    prefix = BinaryComparator(comparable=ByteArrayComparable(value=letter))
    passes = SingleColumnValueFilter(
        column_family=family,
        column_qualifier=qualifier,
        compare_op=EQUAL,
        comparator=_comparator("BinaryPrefixComparator", prefix.SerializeToString()),
        filter_if_missing=True,
        latest_version_only=True,
    )
    return _filter("SingleColumnValueFilter", passes.SerializeToString())


def _named(prefix: bytes) -> Filter:
    pattern = "^.{4}" + "".join(f"\\x{byte:02x}" for byte in prefix)
    regex = RegexStringComparator(pattern=pattern, pattern_flags=_DOT_IS_ANY, charset=_BYTE_FOR_BYTE)
    compare = CompareFilter(
        compare_op=EQUAL, comparator=_comparator("RegexStringComparator", regex.SerializeToString())
    )
    return _filter("RowFilter", RowFilter(compare_filter=compare).SerializeToString())


def _filter(name: str, content: bytes) -> Filter:
    return Filter(name=_PACKAGE + name, serialized_filter=content)


def _comparator(name: str, content: bytes) -> Comparator:
    return Comparator(name=_PACKAGE + name, serialized_comparator=content)
