"""The registration of the one standalone hub that a store may serve.

A standalone hub has no liveness: other hubs cannot learn that it is alive. So a store serves one such hub only. A named
record names that hub and counts its starts. The count after a registration is the hub's epoch, so it must never repeat.
It grows with every registration, also when one hub replaces another, and a wipe keeps it.

The record is changed only by compare-and-set, and each value carries the token of the registration that wrote it.
After a lost answer, the registration reads the record. If it holds the token of this registration, the write was
applied. Else the write was not applied, or another one has replaced it since. Then the registration takes the next
count. No hub uses the count that this may skip.
"""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgpack

from hedwig.errors import (
    CorruptRecordError,
    InvalidArgumentError,
    MetadataUnavailableError,
    StandaloneHubExistsError,
    UncertainStateError,
)
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.records.stamps import make_token

__all__ = ["RECORD_NAME", "StandaloneHub", "read_standalone", "register_standalone"]

RECORD_NAME: Final = "standalone-hub"

_TEXT_MAX: Final = 255
_STARTS_MAX: Final = (1 << 63) - 1
_FIELDS: Final = {"h": str, "a": str, "s": int, "t": bytes}
"""Hub id, address, start count, and the token of the registration that wrote the record."""

_TRIES_MAX: Final = 64
"""A try whose answer arrives fails only because another registration succeeded, so this is far more than needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneHub:
    """The standalone hub of a store: its id, where it served when it last started, and how many starts there were.

    `hub_id` and `address` are 1 to 255 printable characters. `starts` counts the starts of every standalone hub that
    the store ever served.
    """

    hub_id: str
    address: str
    starts: int

    def __post_init__(self) -> None:
        for what, text in (("id", self.hub_id), ("address", self.address)):
            if not (0 < len(text) <= _TEXT_MAX and text.isprintable()):
                raise InvalidArgumentError(
                    f"a standalone hub's {what} is 1 to {_TEXT_MAX} printable characters, not {text[:80]!r}"
                )
        if not 0 < self.starts <= _STARTS_MAX:
            raise InvalidArgumentError(f"a hub's start count is 1 to {_STARTS_MAX}, not {self.starts}")


@dataclass(frozen=True, slots=True)
class _Record:
    """The record as stored: the hub, the token of the registration, and all fields, also those of a newer format."""

    hub: StandaloneHub
    token: bytes
    fields: dict[str, Any]

    @classmethod
    def decode(cls, raw: bytes, store: str) -> "_Record":
        try:
            fields = msgpack.unpackb(raw)
            for key, kind in _FIELDS.items():
                if not isinstance(fields[key], kind):
                    raise ValueError(f"field {key!r} is {type(fields[key]).__name__}, not {kind.__name__}")
            hub = StandaloneHub(hub_id=fields["h"], address=fields["a"], starts=fields["s"])
            return cls(hub, fields["t"], fields)
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as exc:
            reason = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
            raise CorruptRecordError(
                f"the record {RECORD_NAME!r} of {store}, which counts the starts of its standalone hub, cannot be "
                f"read ({reason}). Restore it from a copy: without the count a start could repeat an epoch"
            ) from exc

    @classmethod
    def after(cls, before: "_Record | None", hub_id: str, address: str, token: bytes) -> "_Record":
        """Return the record of the start that follows `before`."""
        hub = StandaloneHub(hub_id=hub_id, address=address, starts=1 if before is None else before.hub.starts + 1)
        kept = {} if before is None else before.fields
        return cls(hub, token, {**kept, "h": hub.hub_id, "a": hub.address, "s": hub.starts, "t": token})

    def encode(self) -> bytes:
        packed: bytes = msgpack.packb(self.fields)
        return packed


async def read_standalone(records: NamedRecords, store: str) -> StandaloneHub | None:
    """Return the standalone hub that is registered in `store` (a name for errors), or None.

    Raises: CorruptRecordError - the record cannot be read; MetadataUnavailableError.
    """
    raw = await records.read(RECORD_NAME)
    return None if raw is None else _Record.decode(raw, store).hub


async def register_standalone(
    records: NamedRecords,
    store: str,
    hub_id: str,
    address: str,
    *,
    replace: bool,
    timeout_s: float,
    random: Random,
) -> int:
    """Register one start of the hub `hub_id`, which serves at `address`; return the start count.

    Raises: as MetadataStore.register_standalone.
    """
    StandaloneHub(hub_id=hub_id, address=address, starts=1)  # Refuses invalid names before anything is sent.
    registration = _Registration(records, store, hub_id, address, replace, make_token(random))
    try:
        async with asyncio.timeout(timeout_s):
            return await registration.run()
    except TimeoutError as exc:
        raise registration.failure(f"it took longer than {timeout_s:g} s") from exc
    except MetadataUnavailableError as exc:
        raise registration.failure(str(exc)) from exc


class _Registration:
    """One registration: it reads the record and tries a compare-and-set, until one of them settles the outcome."""

    def __init__(
        self, records: NamedRecords, store: str, hub_id: str, address: str, replace: bool, token: bytes
    ) -> None:
        self._records = records
        self._store = store
        self._hub_id = hub_id
        self._address = address
        self._replace = replace
        self._token = token
        self._in_doubt = False

    async def run(self) -> int:
        for _ in range(_TRIES_MAX):
            raw = await self._records.read(RECORD_NAME)
            record = None if raw is None else _Record.decode(raw, self._store)
            if record is not None and record.token == self._token:
                return record.hub.starts
            self._check_free(record)
            mine = _Record.after(record, self._hub_id, self._address, self._token)
            if await self._write(raw, mine.encode()):
                return mine.hub.starts
        raise MetadataUnavailableError(f"other hubs were faster {_TRIES_MAX} times; try again")

    def failure(self, reason: str) -> MetadataUnavailableError:
        """Return the error of a registration that did not finish: definite only if no try is in doubt."""
        if self._in_doubt:
            return UncertainStateError(
                f"registering the standalone hub {self._hub_id} in {self._store}: sent, but {reason}; "
                "register again, which at worst skips a count"
            )
        return MetadataUnavailableError(
            f"registering the standalone hub {self._hub_id} in {self._store}: not done; {reason}"
        )

    def _check_free(self, record: _Record | None) -> None:
        if record is None or self._replace or record.hub.hub_id == self._hub_id:
            return
        other = record.hub
        raise StandaloneHubExistsError(
            f"{self._store} belongs to the standalone hub {other.hub_id}, last started at {other.address}, and this "
            f"hub is {self._hub_id}. Start with the data directory of {other.hub_id}. If that hub is gone for good, "
            "start with: hedwig-hub --replace-standalone",
            other.hub_id,
            other.address,
        )

    async def _write(self, expected: bytes | None, value: bytes) -> bool:
        """Try once; return False if the record must be read again."""
        try:
            return await self._records.replace(RECORD_NAME, expected, value)
        except UncertainStateError:
            self._in_doubt = True
            return False
        except asyncio.CancelledError:
            self._in_doubt = True
            raise
