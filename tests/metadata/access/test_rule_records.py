"""Prove that rules are changed by compare-and-set alone, and that their changes are counted."""

import asyncio

import pytest

from hedwig.access import Pattern, Rule
from hedwig.errors import (
    BadVersionError,
    CorruptRecordError,
    InvalidArgumentError,
    MetadataUnavailableError,
    RecordTooLargeError,
    UncertainStateError,
)
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.records import Kept
from hedwig.metadata.access.rule_records import KeptRules, RuleRecords

AT_ONCE = 20
ANN = "user:ann"


@pytest.fixture
def records(store: MetadataStore) -> RuleRecords:
    return RuleRecords(store.named_records)


def rule(number: int, who: str = ANN) -> Rule:
    return Rule.parse(f"allow {who} publish topic/{number}/*")


async def add(records: RuleRecords, number: int, who: str = ANN, expected: int | None = None) -> KeptRules:
    return await records.change(who, lambda rules: (*rules, rule(number, who)), expected=expected)


async def test_rules_are_read_as_they_were_stored(records: RuleRecords) -> None:
    assert (await records.read(), await records.changes()) == ({}, 0)
    odd = Rule(False, "group:a.b@c", ~rule(1).actions, Pattern((b"\xff ", b"*"), is_prefix=True))
    await records.change("group:a.b@c", lambda _: (odd,))
    kept = await add(records, 1)
    assert await records.read() == {ANN: kept, "group:a.b@c": Kept(1, (odd,))}
    assert await records.read_of(ANN) == kept
    assert await records.read_of("user:bob") == Kept(0, ())
    assert await records.changes() == 2


async def test_all_changes_at_once_are_made(records: RuleRecords) -> None:
    whos = [ANN, "user:bob", "*"]
    await asyncio.gather(*(add(records, number, whos[number % 3]) for number in range(AT_ONCE)))
    kept = await records.read()
    assert sorted(map(str, (each for of_one in kept.values() for each in of_one.value))) == sorted(
        str(rule(number, whos[number % 3])) for number in range(AT_ONCE)
    )
    assert await records.changes() == AT_ONCE


async def test_a_change_of_another_version_is_refused(records: RuleRecords) -> None:
    kept = await add(records, 1, expected=0)
    with pytest.raises(BadVersionError, match=rf"have version {kept.version}, not 0"):
        await add(records, 2, expected=0)
    emptied = await records.change(ANN, lambda _: (), expected=kept.version)
    again = await add(records, 1, expected=emptied.version)
    assert kept.version < emptied.version < again.version


async def test_a_change_that_changes_nothing_writes_nothing(records: RuleRecords) -> None:
    kept = await add(records, 1)
    assert await records.change(ANN, lambda rules: rules) == kept
    assert await records.changes() == 1


async def test_what_cannot_be_stored_changes_nothing(records: RuleRecords) -> None:
    kept = await add(records, 1)
    with pytest.raises(InvalidArgumentError, match="only rules of user:ann"):
        await records.change(ANN, lambda rules: (*rules, rule(2, "user:bob")))
    long = Rule.parse(f"allow {ANN} publish {'x' * 8000}")
    with pytest.raises(RecordTooLargeError, match="Use fewer rules"):
        await records.change(ANN, lambda _: tuple(long for _ in range(100)))
    assert await records.read() == {ANN: kept}


async def test_the_rules_are_there_though_their_change_was_not_counted(
    store: MetadataStore, records: RuleRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the writer was killed between its two writes."""
    replace = type(store.named_records).replace

    async def killed(self: object, name: str, expected: bytes | None, value: bytes) -> bool:
        if name == "access-changes":
            raise UncertainStateError("the test")
        return await replace(self, name, expected, value)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(store.named_records), "replace", killed)
        with pytest.raises(UncertainStateError):
            await add(records, 1)
    assert (await records.read_of(ANN)).value == (rule(1),)
    assert await records.changes() == 0


async def test_a_store_that_is_away_is_one_error(
    store: MetadataStore, records: RuleRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await add(records, 1)

    async def away(self: object, name: str) -> bytes | None:
        raise MetadataUnavailableError("the test")

    with monkeypatch.context() as patch:
        patch.setattr(type(store.named_records), "read", away)
        with pytest.raises(MetadataUnavailableError):
            await records.read()
    assert await records.read() == {ANN: kept}


async def test_what_has_not_changed_is_the_same_object(records: RuleRecords) -> None:
    await add(records, 1)
    first = await records.read()
    assert await records.read() is first
    await add(records, 2, "user:bob")
    second = await records.read()
    assert second[ANN] is first[ANN]
    assert set(second) == {ANN, "user:bob"}


@pytest.mark.parametrize(
    "damage", [b"\xc1", b"\x01", b"\x94\x02\x01\x40\x80", b"\x94\x01\x01\xc4\x00\x81\xa1*\x92\x01\x91\xa1x"]
)
async def test_a_damaged_record_is_told(store: MetadataStore, records: RuleRecords, damage: bytes) -> None:
    await add(records, 1)
    (name,) = await store.named_records.names("access-rules-")
    assert await store.named_records.replace(name, await store.named_records.read(name), damage)
    with pytest.raises(CorruptRecordError, match=name):
        await records.read_of(ANN)
