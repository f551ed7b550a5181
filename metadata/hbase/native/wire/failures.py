"""Failures: the meaning of an exception with which an HBase server answers a call.

An exception arrives as the name of a Java class. Every meaning but UNKNOWN says that the call had no effect.
"""

import enum
import re
from typing import Final, Self

from hedwig.metadata.hbase.native.hbase_pb2 import ExceptionResponse, NameBytesPair

__all__ = ["Meaning", "ServerFailure"]


class Meaning(enum.Enum):
    """The meaning of an exception."""

    ELSEWHERE = "the HBase region is not where it was believed to be, or has other bounds"
    ENDING = "the server is going down, with all of its HBase regions"
    STARTING = "the server is starting, and has no HBase region yet: other servers may have got those it had"
    NOT_YET = "the server is busy or overloaded, or opens the HBase region, or is a master that starts"
    SCANNER_LOST = "the server forgot the scanner"
    NO_TABLE = "the table does not exist"
    FORBIDDEN = "the user has no right to that, as far as HBase knows"
    REFUSED = "the request is wrong and stays so"
    UNKNOWN = "it is unknown whether the call had an effect"


_MEANINGS: Final = {
    "NotServingRegionException": Meaning.ELSEWHERE,
    "RegionMovedException": Meaning.ELSEWHERE,
    "WrongRegionException": Meaning.ELSEWHERE,
    "RegionOpeningException": Meaning.NOT_YET,
    "RegionServerStoppedException": Meaning.ENDING,
    "RegionServerAbortedException": Meaning.ENDING,
    "ServerNotRunningYetException": Meaning.STARTING,
    "PleaseHoldException": Meaning.NOT_YET,
    "MasterNotRunningException": Meaning.ENDING,
    "MasterStoppedException": Meaning.ENDING,
    "CallQueueTooBigException": Meaning.NOT_YET,
    "CallDroppedException": Meaning.NOT_YET,
    "RpcThrottlingException": Meaning.NOT_YET,
    "RegionTooBusyException": Meaning.NOT_YET,
    "MultiActionResultTooLarge": Meaning.NOT_YET,
    "RetryImmediatelyException": Meaning.NOT_YET,
    "UnknownScannerException": Meaning.SCANNER_LOST,
    "OutOfOrderScannerNextException": Meaning.SCANNER_LOST,
    "ScannerResetException": Meaning.SCANNER_LOST,
    "LeaseException": Meaning.SCANNER_LOST,
    "TableNotFoundException": Meaning.NO_TABLE,
    # Inside a batch HBase does not say whether an exception is final, so the final ones are listed here by name.
    "AccessDeniedException": Meaning.FORBIDDEN,
    "DoNotRetryIOException": Meaning.REFUSED,
    "FailedSanityCheckException": Meaning.REFUSED,
    "NoSuchColumnFamilyException": Meaning.REFUSED,
    "RequestTooBigException": Meaning.REFUSED,
    "UnknownProtocolException": Meaning.REFUSED,
    "WrongRowIOException": Meaning.REFUSED,
}
_ROW_OUT_OF_RANGE: Final = "row out of range"
_LOCK_NOT_GOT: Final = "Timed out waiting for lock"
_MOVED_TO: Final = re.compile(r"Region moved to: hostname=(\S+) port=(\d+) ")
_TEXT_MAX: Final = 300


class ServerFailure(Exception):
    """An exception with which a server answered a call, or one action of a call.

    `address` is the host and port to which the HBase region has moved, if the server named them.
    """

    def __init__(
        self, java_class: str, text: str, *, for_good: bool = False, address: tuple[str, int] | None = None
    ) -> None:
        self.java_class = java_class.rpartition(".")[2].rpartition("$")[2]
        first_line = text.partition("\n\tat ")[0].removeprefix(f"{java_class}: ")
        super().__init__(" ".join(first_line.split())[:_TEXT_MAX] or self.java_class)
        self.address = address
        self.meaning = self._meaning(text, for_good=for_good)

    @classmethod
    def of_call(cls, exception: ExceptionResponse) -> Self:
        """Return the failure of a whole call."""
        address = (exception.hostname, exception.port) if exception.hostname else None
        return cls(
            exception.exception_class_name, exception.stack_trace, for_good=exception.do_not_retry, address=address
        )

    @classmethod
    def of_action(cls, exception: NameBytesPair) -> Self:
        """Return the failure of one HBase region or one action in a batch."""
        text = exception.value.decode("utf-8", "backslashreplace")
        # In a batch the address has no field of its own. HBase's own client takes it from the text too.
        moved = _MOVED_TO.search(text) if "RegionMovedException" in exception.name else None
        return cls(exception.name, text, address=(moved[1], int(moved[2])) if moved else None)

    def _meaning(self, text: str, *, for_good: bool) -> Meaning:
        # HBase marks this one as final all the same.
        if self.java_class == "FailedSanityCheckException" and _ROW_OUT_OF_RANGE in text:
            return Meaning.ELSEWHERE
        if _LOCK_NOT_GOT in text:
            return Meaning.NOT_YET
        meaning = _MEANINGS.get(self.java_class)
        return meaning or (Meaning.REFUSED if for_good else Meaning.UNKNOWN)
