"""The files of a store that count: those that its servers would read if they were restarted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["disk_bytes", "kept_files", "occupied"]

_BLOCK_BYTES: Final = 512
_SNAPSHOT: Final = "snapshot"
_LOG: Final = "log"
_WHOLE: Final = b"\0\0\0\1/"
"""The last bytes of a complete snapshot. Source: ZooKeeper's SnapStream.isValidSnapshot."""
_DISCARDED: Final = frozenset({"oldWALs", "archive"})
"""Folders that HBase does not need any more; its master removes their files some minutes later."""


def disk_bytes(directory: Path) -> int:
    """Return how many bytes are occupied by the files below a servers' data directory that a start would read."""
    return sum(occupied(file) for file in kept_files(directory))


def kept_files(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, without HBase's discarded files and ZooKeeper's old snapshots and logs.

    By default ZooKeeper never removes old snapshots and logs.
    """
    try:
        inside = sorted(directory.iterdir())
        folders = [each for each in inside if each.is_dir() and not each.is_symlink()]
    except OSError:
        return  # Servers make and remove folders while they work.
    files = [each for each in inside if each not in folders]
    past = _past([each for each in files if _zxid(each) is not None])
    yield from (each for each in files if each not in past)
    for folder in folders:
        if folder.name not in _DISCARDED:
            yield from kept_files(folder)


def _past(files: list[Path]) -> set[Path]:
    """Return which snapshots and logs of a folder a start would not read.

    A start takes the newest whole snapshot, and the logs from the one that holds the snapshot's beginning. Changes
    continue while a snapshot is written, so the start applies all of them again.
    Source: ZooKeeper's FileSnap and FileTxnLog.
    """
    snapshots = sorted((each for each in files if _is(each, _SNAPSHOT) and _is_whole(each)), key=_order)
    if not snapshots:
        return set()
    newest = snapshots[-1]
    logs = sorted((each for each in files if _is(each, _LOG)), key=_order)
    before = [each for each in logs if _order(each) <= _order(newest)]
    return {*(each for each in files if _is(each, _SNAPSHOT) and _order(each) < _order(newest)), *before[:-1]}


def _is(file: Path, kind: str) -> bool:
    return file.name.startswith(f"{kind}.")


def _zxid(file: Path) -> int | None:
    """Return the transaction that ZooKeeper named a file after, in hexadecimal; None if it is no such file."""
    kind, _, number = file.name.partition(".")
    if kind not in (_SNAPSHOT, _LOG):
        return None
    try:
        return int(number, 16)
    except ValueError:
        return None


def _order(file: Path) -> int:
    return _zxid(file) or 0


def _is_whole(snapshot: Path) -> bool:
    try:
        with snapshot.open("rb") as file:
            file.seek(max(0, snapshot.stat().st_size - len(_WHOLE)))
            return file.read() == _WHOLE
    except OSError:
        return False


def occupied(file: Path) -> int:
    """Return the bytes of a file's blocks: ZooKeeper's logs are longer than what is in them."""
    try:
        return file.lstat().st_blocks * _BLOCK_BYTES
    except OSError:
        return 0  # Servers make and remove logs while they work.
