"""Publish each row of a SQL table once, whatever crashes: the pattern "transactional outbox".

    python examples/outbox.py shop.db order 3 pears     an order, and the row that tells of it, in one transaction
    python examples/outbox.py shop.db relay             publish the rows until Ctrl-C; may be killed at any time

A row has a number, which grows. The relay publishes under a name, with the number as sequence. Before it sends a row it
stores when. After a crash it sends again what has no answer, and says how long ago it may have been sent first. So the
hub recognises what it has stored already.
"""

import argparse
import sqlite3
import time
from collections.abc import Iterator

from hedwig import BlockingClient
from hedwig.client import BlockingPublisher
from hedwig.errors import UncertainAnswerError

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, count INTEGER, what TEXT);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- It never takes a number again, also after the row was deleted.
    topic TEXT, body TEXT,
    first_sent REAL  -- In seconds since 1970; NULL: it was surely never sent.
);
"""
PAUSE_S = 0.1


def order(database: sqlite3.Connection, count: int, what: str) -> None:
    """Store an order, and that others are to hear of it. Both happen, or neither."""
    with database:
        database.execute("INSERT INTO orders (count, what) VALUES (?, ?)", (count, what))
        database.execute("INSERT INTO outbox (topic, body) VALUES ('orders', ?)", (f"{count} {what}",))


def rows(database: sqlite3.Connection) -> Iterator[tuple[int, str, str, float | None]]:
    """Yield the rows of the outbox in order, and wait for new ones."""
    last = 0
    while True:
        found = database.execute(
            "SELECT id, topic, body, first_sent FROM outbox WHERE id > ? ORDER BY id LIMIT 100", (last,)
        ).fetchall()
        for row in found:
            yield row
            last = row[0]
        if not found:
            time.sleep(PAUSE_S)


def send(database: sqlite3.Connection, publisher: BlockingPublisher, row: tuple[int, str, str, float | None]) -> None:
    """Publish one row, and delete it."""
    number, topic, body, first_sent = row
    age_s = 0.0
    if first_sent is None:
        with database:
            database.execute("UPDATE outbox SET first_sent = ? WHERE id = ?", (time.time(), number))
    else:
        age_s = max(0.0, time.time() - first_sent) + 1.0  # Clocks that are set must not make it younger.
    position = publisher.publish(topic, body.encode(), sequence=number, age_s=age_s)
    with database:
        database.execute("DELETE FROM outbox WHERE id = ?", (number,))
    print(f"row {number} is message {position.local} of {topic}", flush=True)


def relay(database: sqlite3.Connection, hub: str) -> None:
    """Publish the rows of the outbox until Ctrl-C."""
    with BlockingClient(hub) as client:
        publisher = client.publisher("outbox of the shop")
        for row in rows(database):
            while True:
                try:
                    send(database, publisher, row)
                    break
                except UncertainAnswerError as error:
                    # The hub was away for longer than it remembers messages (`repeat_window_s`). A person must look
                    # into the topic, and delete the row or clear its `first_sent`.
                    print(f"row {row[0]} may be published or not; it is kept: {error}", flush=True)
                    time.sleep(10 * PAUSE_S)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description="Publish each row of a SQL table once.")
    parser.add_argument("database")
    parser.add_argument("--hub", default="127.0.0.1:4080", metavar="HOST:PORT")
    commands = parser.add_subparsers(dest="command", required=True)
    ordering = commands.add_parser("order")
    ordering.add_argument("count", type=int)
    ordering.add_argument("what")
    commands.add_parser("relay")
    given = parser.parse_args()
    database = sqlite3.connect(given.database)
    database.executescript(TABLES)
    try:
        if given.command == "order":
            order(database, given.count, given.what)
        else:
            relay(database, given.hub)
    except KeyboardInterrupt:
        pass
    finally:
        database.close()


if __name__ == "__main__":
    main()
