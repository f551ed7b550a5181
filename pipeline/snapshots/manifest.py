"""The manifest of a snapshot: what the snapshot holds, so that a reader can check that all of it is there.

A job writes it last. A folder without one is no snapshot, whatever else is in it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.checksum import Checksum
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.logs import LogsFile

__all__ = ["FORMAT", "Manifest"]

FORMAT: Final = 2
"""The version of the format: the tables and columns, how checksums are made, and the fields of the manifest."""
_WITHOUT_LOGS: Final = 1
"""That of a snapshot without shared logs, which earlier releases read."""
_KIND: Final = "hedwig metadata snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot holds.

    `source` says what was read: the URL of a store, or what made the rows. The source was read from `began` to `ended`
    (ISO 8601, UTC), and each record is as it was at some moment in between. `prefix`, in hexadecimal digits: the
    snapshot has only topics that begin with it.
    """

    source: str
    began: str
    ended: str
    tables: Mapping[Table, Checksum]
    prefix: str = ""
    unknown_fields: Mapping[Table, int] = field(default_factory=dict)
    """How many records had fields of a newer release, which the snapshot lacks; only tables with such records."""
    unreadable: Mapping[Table, int] = field(default_factory=dict)
    """How many records could not be read and were passed over; only tables with such records."""
    logs: LogsFile | None = None
    """The file with the shared logs that the records name; None if they name none."""

    @property
    def rows(self) -> int:
        """Return how many rows all tables have."""
        return sum(each.rows for each in self.tables.values())

    def figures(self, seconds: float) -> dict[str, Any]:
        """Return what a job reports of a snapshot that it took in `seconds`."""
        rate = round(self.rows / seconds) if seconds else None
        counts = {table.value: each.rows for table, each in self.tables.items()}
        logs = {} if self.logs is None else {"logs": self.logs.logs}
        return {"tables": counts, "rows": self.rows, "rows_per_second": rate, **logs, **self.losses}

    @property
    def losses(self) -> dict[str, Any]:
        """Return the counts of records that the snapshot lacks, or holds without some fields; empty if none."""
        by_kind = {"unknown_fields": _named(self.unknown_fields), "unreadable": _named(self.unreadable)}
        return {name: counts for name, counts in by_kind.items() if counts}

    @property
    def warning(self) -> str | None:
        """Return a text about records that the snapshot lacks, or holds without some fields; None if none."""
        sentences = []
        if self.unknown_fields:
            sentences.append(
                f"{_listed(self.unknown_fields)} have fields of a newer release of Hedwig, which are not in the "
                "snapshot: use that release to copy them whole"
            )
        if self.unreadable:
            sentences.append(
                f"{_listed(self.unreadable)} could not be read, and are not in the snapshot: hedwig-admin metadata "
                "check names them"
            )
        return "; ".join(sentences) or None

    def encode(self) -> str:
        """Return the text of the file."""
        tables = {table.value: {"rows": each.rows, "checksum": each.text} for table, each in self.tables.items()}
        content = {
            "kind": _KIND,
            "format": _WITHOUT_LOGS if self.logs is None else FORMAT,
            "source": self.source,
            "began": self.began,
            "ended": self.ended,
            "prefix_hex": self.prefix,
            "tables": tables,
            "unknown_fields": _named(self.unknown_fields),
            "unreadable": _named(self.unreadable),
            **({} if self.logs is None else {"logs": {"logs": self.logs.logs, "sha256": self.logs.sha256}}),
        }
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def decode(cls, text: str, path: str) -> Self:
        """Return the manifest in `text`, read from `path`. Raises JobError - it is none, or of a later format."""
        try:
            content = json.loads(text)
        except ValueError as exc:
            raise JobError(f"{path} is damaged, it is no JSON: use another copy of the snapshot") from exc
        match content:
            case {"kind": str(kind), "format": int(version)} if kind == _KIND and version > FORMAT:
                raise JobError(
                    f"{path} is of format {version}, and this release reads up to {FORMAT}: use the release that "
                    "wrote it, or a later one"
                )
            case {
                "kind": str(kind),
                "format": int(),
                "source": str(source),
                "began": str(began),
                "ended": str(ended),
                "prefix_hex": str(prefix),
                "tables": dict(tables),
            } if kind == _KIND and _is_hex(prefix):
                return cls(
                    source=source,
                    began=began,
                    ended=ended,
                    prefix=prefix,
                    tables=_tables(tables, path),
                    unknown_fields=_counts(content, "unknown_fields", path),
                    unreadable=_counts(content, "unreadable", path),
                    logs=_logs(content, path),
                )
            case _:
                raise JobError(f"{path} is no manifest of a snapshot, or damaged: use another copy")


def _tables(content: Mapping[str, Any], path: str) -> dict[Table, Checksum]:
    checksums = {}
    for name, said in content.items():
        match said:
            case {"rows": int(rows), "checksum": str(text)} if Checksum.is_text(text) and name in set(Table):
                checksums[Table(name)] = Checksum(rows, text)
            case _:
                raise JobError(f"{path} says nothing readable of the table {name!r}: use another copy of the snapshot")
    return checksums


def _counts(content: Mapping[str, Any], name: str, path: str) -> dict[Table, int]:
    match content.get(name, {}):
        case dict(said) if all(each in set(Table) and isinstance(number, int) for each, number in said.items()):
            return {Table(each): number for each, number in said.items()}
        case _:
            raise JobError(f"{path} says nothing readable of {name!r}: use another copy of the snapshot")


def _logs(content: Mapping[str, Any], path: str) -> LogsFile | None:
    match content:
        case {"format": int(version)} if version == _WITHOUT_LOGS:
            return None
        case {"logs": {"logs": int(number), "sha256": str(digest)}}:
            return LogsFile(number, digest)
        case _:
            raise JobError(f"{path} says nothing readable of the shared logs: use another copy of the snapshot")


def _named(counts: Mapping[Table, int]) -> dict[str, int]:
    return {table.value: number for table, number in counts.items()}


def _listed(counts: Mapping[Table, int]) -> str:
    return ", ".join(f"{number:,} records of {table}" for table, number in counts.items())


def _is_hex(text: str) -> bool:
    return re.fullmatch("([0-9a-f]{2})*", text) is not None
