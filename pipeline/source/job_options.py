"""How a job reads and writes stores: options of the data source, and fields of `ApplyConfig`, by their names there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hedwig.names import parse_name
from hedwig.pipeline.frames.tables import TIMEOUT_S

__all__ = ["ScanOptions", "WriteOptions"]


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a store is read: options of the data source, by their names there."""

    options: Mapping[str, str]

    def within(self, timeout_s: int) -> Self:
        """Return the same options, with `timeout_s` for each request."""
        return type(self)({**self.options, "timeoutSeconds": str(timeout_s)})

    @property
    def timeout_s(self) -> float:
        """Return how long the store may take for one request."""
        return float(self.options.get("timeoutSeconds", TIMEOUT_S))

    @property
    def prefix(self) -> bytes:
        """Return the prefix of the topics to read."""
        return parse_name(self.options.get("prefix", ""))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a store is written: the given fields of `ApplyConfig`, by their names there."""

    options: Mapping[str, Any]

    @property
    def policy(self) -> str:
        """Return the policy: what becomes of a record that exists already."""
        return str(self.options["policy"])

    @property
    def timeout_s(self) -> float:
        """Return how long the store may take for one request."""
        return float(self.options.get("operation_timeout_s", TIMEOUT_S))

    @property
    def reading(self) -> dict[str, str]:
        """Return the data source options for reading back what was written."""
        timeout_s = self.options.get("operation_timeout_s")
        return {} if timeout_s is None else {"timeoutSeconds": str(int(timeout_s))}

    def within(self, timeout_s: int) -> Self:
        """Return the same options, with `timeout_s` for each request."""
        return type(self)({**self.options, "operation_timeout_s": float(timeout_s)})
