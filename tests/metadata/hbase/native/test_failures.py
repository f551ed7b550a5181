"""Prove that the driver classifies every known exception of HBase correctly, under any package name."""

import pytest

from hedwig.metadata.hbase.native.hbase_pb2 import ExceptionResponse, NameBytesPair
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure

EXPECTED = {
    "NotServingRegionException": Meaning.ELSEWHERE,
    "RegionMovedException": Meaning.ELSEWHERE,
    "WrongRegionException": Meaning.ELSEWHERE,
    "RegionOpeningException": Meaning.NOT_YET,
    "RegionServerStoppedException": Meaning.ENDING,
    "RegionServerAbortedException": Meaning.ENDING,
    "ServerNotRunningYetException": Meaning.STARTING,
    "PleaseHoldException": Meaning.NOT_YET,
    "CallQueueTooBigException": Meaning.NOT_YET,
    "CallDroppedException": Meaning.NOT_YET,
    "RpcThrottlingException": Meaning.NOT_YET,
    "RegionTooBusyException": Meaning.NOT_YET,
    "UnknownScannerException": Meaning.SCANNER_LOST,
    "OutOfOrderScannerNextException": Meaning.SCANNER_LOST,
    "ScannerResetException": Meaning.SCANNER_LOST,
    "LeaseException": Meaning.SCANNER_LOST,
    "NoSuchColumnFamilyException": Meaning.REFUSED,
    "DoNotRetryIOException": Meaning.REFUSED,
    "AccessDeniedException": Meaning.FORBIDDEN,
    "TableNotFoundException": Meaning.NO_TABLE,
    "SomethingNewException": Meaning.UNKNOWN,
    "IOException": Meaning.UNKNOWN,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_meaning_of_a_class(name: str) -> None:
    pair = NameBytesPair(name=f"org.apache.hadoop.hbase.some.{name}", value=b"text")
    assert ServerFailure.of_action(pair).meaning is EXPECTED[name]
    assert ServerFailure(f"a.b.Outer${name}", "text").meaning is EXPECTED[name]


def test_an_unknown_class_is_believed_when_it_says_that_it_is_final() -> None:
    exception = ExceptionResponse(exception_class_name="a.b.NewException", do_not_retry=True)
    assert ServerFailure.of_call(exception).meaning is Meaning.REFUSED
    exception.do_not_retry = False
    assert ServerFailure.of_call(exception).meaning is Meaning.UNKNOWN


def test_a_row_outside_of_its_region_is_a_stale_location_though_marked_as_final() -> None:
    text = "Requested row out of range for doMiniBatchMutation on HRegion ns:t,,1.2., startKey='', row='x'"
    exception = ExceptionResponse(
        exception_class_name="a.b.FailedSanityCheckException", stack_trace=text, do_not_retry=True
    )
    assert ServerFailure.of_call(exception).meaning is Meaning.ELSEWHERE
    exception.stack_trace = "something else is wrong"
    assert ServerFailure.of_call(exception).meaning is Meaning.REFUSED


def test_a_lock_that_was_not_got_had_no_effect() -> None:
    assert ServerFailure("java.io.IOException", "Timed out waiting for lock for row").meaning is Meaning.NOT_YET


def test_a_moved_region_is_placed_by_a_call_and_by_an_action_alike() -> None:
    name = "org.apache.hadoop.hbase.exceptions.RegionMovedException"
    text = f"{name}: Region moved to: hostname=rs-2.example port=16020 startCode=1795283051259. As of locationSeqNum=7."
    call = ExceptionResponse(exception_class_name=name, stack_trace=text, hostname="rs-2.example", port=16020)
    assert ServerFailure.of_call(call).address == ("rs-2.example", 16020)
    assert ServerFailure.of_action(NameBytesPair(name=name, value=text.encode())).address == ("rs-2.example", 16020)
    assert ServerFailure.of_action(NameBytesPair(name=name, value=b"Region moved")).address is None


def test_the_text_is_one_line_of_bounded_length() -> None:
    failure = ServerFailure("a.b.C", "java.io.IOException: first\nsecond " + "x" * 500 + "\n\tat org.Some.method")
    assert "\n" not in str(failure)
    assert "at org" not in str(failure)
    assert len(str(failure)) <= 300
