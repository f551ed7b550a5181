"""Prove that users are stored as they were, and share a secret of their deployment."""

import asyncio

import pytest

from hedwig.access.scram import make_verifier
from hedwig.access.users import User, Verifier
from hedwig.errors import CorruptRecordError, InvalidArgumentError
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords


@pytest.fixture
def records(store: MetadataStore) -> UserRecords:
    return UserRecords(store.named_records)


async def test_users_are_read_as_they_were_stored(store: MetadataStore, records: UserRecords) -> None:
    newest = make_verifier("correct horse")
    ann = User(frozenset({"shop", "billing"}), (newest, Verifier(newest.salt, newest.iterations, b"k", b"s", 1.5)))
    kept = await records.replace("user:ann", ann)
    assert await records.read() == {"user:ann": kept}
    assert (kept.version, kept.value) == (1, ann)
    assert await RuleRecords(store.named_records).read() == {}
    assert await RuleRecords(store.named_records).changes() == 1
    assert (await records.replace("user:ann", User())).value == User()


async def test_all_make_the_same_secret(records: UserRecords) -> None:
    assert await records.pepper() is None
    await asyncio.gather(*(records.make_pepper() for _ in range(8)))
    made = await records.pepper()
    assert made is not None
    await records.make_pepper()
    assert await records.pepper() == made


async def test_a_damaged_record_is_told(store: MetadataStore, records: UserRecords) -> None:
    await records.replace("user:ann", User(verifiers=(make_verifier("correct horse"),)))
    for number in range(64):
        name = f"access-users-{number:02}"
        if (stored := await store.named_records.read(name)) is not None:
            await store.named_records.replace(name, stored, stored[:-1])
    with pytest.raises(CorruptRecordError, match="the record 'access-users-"):
        await records.read()


def test_passwords_of_a_user_have_one_salt() -> None:
    one, other = make_verifier("correct horse"), make_verifier("battery staple")
    for verifiers in ((one, other), (one, one, one)):
        with pytest.raises(InvalidArgumentError, match="of the same salt"):
            User(verifiers=verifiers)
