"""A process that takes the write lock of a SQLite file and keeps it.

    python -m tests.faults.support.sqlite_lock_holder FILE

It writes enough inside its transaction to reach the file's log, then prints `ready`, and ends only by a signal.
"""

import signal
import sqlite3
import sys

__all__ = ["hold"]

_PAGES: int = 4000


def hold(path: str) -> None:
    """Keep the lock until killed."""
    connection = sqlite3.connect(path, isolation_level=None)
    # A cache so small that the pages of an unfinished transaction go to the log.
    connection.execute("PRAGMA cache_size = 10")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE debris (data BLOB)")
    connection.execute("UPDATE ownership SET record = zeroblob(100)")
    connection.execute(
        "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?) "
        "INSERT INTO debris SELECT zeroblob(1000) FROM count",
        (_PAGES,),
    )
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    hold(sys.argv[1])
