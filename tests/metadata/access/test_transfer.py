"""Prove that a store that moves takes its rules and users along."""

from pathlib import Path

from hedwig.access import Rule
from hedwig.access.scram import make_verifier
from hedwig.access.users import User
from hedwig.metadata import format_metadata, open_metadata
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.transfer import move_rules, move_users
from hedwig.metadata.access.user_records import UserRecords

ANN, BOB, EVE = ((Rule.parse(f"allow user:{name} publish t"),) for name in ("ann", "bob", "eve"))


async def test_the_target_has_the_rules_of_the_source_and_no_others(tmp_path: Path) -> None:
    urls = [f"sqlite://{tmp_path / name}" for name in ("source.db", "target.db")]
    for url in urls:
        await format_metadata(url)
    async with await open_metadata(urls[0]) as source, await open_metadata(urls[1]) as target:
        here, there = RuleRecords(source.named_records), RuleRecords(target.named_records)
        assert await move_rules(source.named_records, target.named_records) == 0
        await here.change("user:ann", lambda _: ANN)
        await here.change("user:bob", lambda _: BOB)
        await there.change("user:bob", lambda _: (*BOB, Rule.parse("deny user:bob publish *")))
        await there.change("user:eve", lambda _: EVE)
        before = await there.changes()
        for _ in range(2):
            assert await move_rules(source.named_records, target.named_records) == 2
            kept = {who: each.value for who, each in (await there.read()).items() if each.value}
            assert kept == {"user:ann": ANN, "user:bob": BOB}
        assert await there.changes() == before + 3
        assert await here.changes() == 2


async def test_the_target_has_the_users_of_the_source_and_no_others(tmp_path: Path) -> None:
    urls = [f"sqlite://{tmp_path / name}" for name in ("source.db", "target.db")]
    for url in urls:
        await format_metadata(url)
    ann = User(frozenset({"shop"}), (make_verifier("correct horse"),))
    async with await open_metadata(urls[0]) as source, await open_metadata(urls[1]) as target:
        here, there = UserRecords(source.named_records), UserRecords(target.named_records)
        await here.replace("user:ann", ann)
        await here.make_pepper()
        await there.replace("user:eve", User(verifiers=(make_verifier("battery staple"),)))
        assert await move_users(source.named_records, target.named_records) == 1
        assert await there.pepper() == await here.pepper()
        assert {who: each.value for who, each in (await there.read()).items() if each.value.verifiers} == {
            "user:ann": ann
        }
