"""The embedded backend: one SQLite file, no server, several processes of one machine."""

from hedwig.metadata.sqlite.factory import FACTORY, SqliteBackend, SqliteFactory

__all__ = ["FACTORY", "SqliteBackend", "SqliteFactory"]
