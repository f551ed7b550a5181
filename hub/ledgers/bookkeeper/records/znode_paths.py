"""Where ZooKeeper keeps the metadata of a ledger: the layouts of ledger ids below the root."""

import enum
import re
from typing import Final

from hedwig.errors import ConfigurationError, InvalidArgumentError

__all__ = ["LedgerLayout", "layout_text", "parse_layout"]

_SHORT_IDS: Final = (1 << 31) - 1
_LONG_IDS: Final = 1 << 63
_PACKAGE: Final = "org.apache.bookkeeper.meta."
_FORMAT: Final = "2"
_VERSION: Final = "1"


class LedgerLayout(enum.Enum):
    """A layout, named after the class that serves it in BookKeeper. Ids start at 0."""

    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    LONG_HIERARCHICAL = "LongHierarchicalLedgerManagerFactory"
    LEGACY_HIERARCHICAL = "LegacyHierarchicalLedgerManagerFactory"
    FLAT = "FlatLedgerManagerFactory"

    @property
    def ids_end(self) -> int:
        """The lowest id that this layout cannot keep."""
        has_long = self in (LedgerLayout.HIERARCHICAL, LedgerLayout.LONG_HIERARCHICAL)
        return _LONG_IDS if has_long else _SHORT_IDS

    def path(self, ledger_id: int) -> str:
        """Return the path of a ledger relative to the root. Raises: InvalidArgumentError - no id of this layout."""
        if not 0 <= ledger_id < self.ids_end:
            raise InvalidArgumentError(f"{ledger_id} is no ledger id: it must be from 0 to {self.ids_end - 1}")
        if self is LedgerLayout.FLAT:
            return f"L{ledger_id:010}"
        if self is LedgerLayout.LONG_HIERARCHICAL or ledger_id >= _SHORT_IDS:
            return _split(f"{ledger_id:019}", 3)
        return _split(f"{ledger_id:010}", 2)

    def ledger_id(self, path: str) -> int | None:
        """Return the ledger at a path relative to the root, None for a znode that is no ledger's."""
        if not _LEDGER_PATH.fullmatch(path):
            return None
        ledger_id = int(path.replace("/", "").replace("L", ""))
        return ledger_id if ledger_id < self.ids_end and self.path(ledger_id) == path else None

    def is_directory(self, path: str) -> bool:
        """Say whether ledgers of this layout may be below a path relative to the root."""
        if self is LedgerLayout.FLAT:
            return False
        short = self is not LedgerLayout.LONG_HIERARCHICAL and _SHORT_DIRECTORY.fullmatch(path)
        return bool(short) or (self.ids_end == _LONG_IDS and bool(_LONG_DIRECTORY.fullmatch(path)))


_LEDGER_PATH: Final = re.compile(r"L[0-9]{10}|[0-9]{2}/[0-9]{4}/L[0-9]{4}|[0-9]{3}/(?:[0-9]{4}/){3}L[0-9]{4}")
_SHORT_DIRECTORY: Final = re.compile(r"[0-9]{2}(?:/[0-9]{4})?")
_LONG_DIRECTORY: Final = re.compile(r"[0-9]{3}(?:/[0-9]{4}){0,3}")


def _split(digits: str, first: int) -> str:
    parts = [digits[:first], *(digits[start : start + 4] for start in range(first, len(digits), 4))]
    return "/".join([*parts[:-1], f"L{parts[-1]}"])


def layout_text(layout: LedgerLayout) -> bytes:
    """Return the content of the znode `LAYOUT`."""
    return f"{_FORMAT}\n{_PACKAGE}{layout.value}:{_VERSION}".encode()


def parse_layout(content: bytes) -> LedgerLayout:
    """Read the znode `LAYOUT`. Raises: ConfigurationError - a layout that is not known here."""
    text = content.decode("utf-8", "replace").strip()
    lines = text.split("\n")
    if len(lines) == 2 and lines[0] == _FORMAT:
        name, _, version = lines[1].removeprefix(_PACKAGE).partition(":")
        if version == _VERSION and name in {layout.value for layout in LedgerLayout}:
            return LedgerLayout(name)
    raise ConfigurationError(f"the ledgers of this ZooKeeper are laid out as {text!r}, which this client does not know")
