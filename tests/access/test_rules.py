"""The text of rules: what is read, and what is refused."""

import pytest

from hedwig.access import Action, Pattern, Principal, Rule, RuleBook
from hedwig.errors import InvalidArgumentError

BOOK = """
    allow group:shop     publish,create             orders/*
    allow group:billing  subscribe                  orders/*        as billing/*
    allow *              publish,subscribe,create   home/{user}/*   as {user}/*
    deny  user:mallory   *                          *
    allow group:ops      view,operate               *
"""


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return RuleBook.of(Rule.parse(line) for line in BOOK.strip().splitlines())


def test_what_the_rules_of_the_page_say(book: RuleBook) -> None:
    ann = Principal("ann", frozenset({"shop"}))
    assert book.rights(ann).of(b"orders/1").may(Action.PUBLISH)
    assert not book.rights(ann).of(b"orders").may(Action.PUBLISH)
    assert not book.rights(ann).of(b"orders/1").may_as(Action.SUBSCRIBE, b"billing/1")
    assert book.rights(ann).of(b"home/ann/x").may_as(Action.SUBSCRIBE, b"ann/1")
    assert not book.rights(ann).of(b"home/ann/x").may_as(Action.SUBSCRIBE, b"bob/1")
    assert not book.rights(ann).of(b"home/ann/x").may_as(Action.UNSUBSCRIBE, b"ann/1")
    assert not book.rights(ann).of(b"home/bob/x").may(Action.PUBLISH)
    bill = Principal("bill", frozenset({"billing"}))
    assert book.rights(bill).of(b"orders/1").may_as(Action.SUBSCRIBE, b"billing/1")
    assert not book.rights(bill).of(b"orders/1").may_as(Action.SUBSCRIBE, b"other")
    mallory = Principal("mallory", frozenset({"shop", "ops"}))
    assert not any(book.rights(mallory).of(b"orders/1").may(each) for each in Action)
    assert book.why(mallory, Action.PUBLISH, b"orders/1") == (False, Rule.parse("deny user:mallory * *"))
    assert book.why(ann, Action.VIEW, b"orders/1") == (False, None)


def test_a_user_without_a_group_or_rule_may_nothing() -> None:
    assert not any(RuleBook.of(()).rights(Principal("ann")).of(b"t").may(each) for each in Action)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a rule is: allow"),
        ("allow * publish", "a rule is: allow"),
        ("permit * publish t", "a rule is: allow"),
        ("allow * publish t for *", "a rule is: allow"),
        ("allow ann publish t", "user:NAME, group:NAME, or"),
        ("allow user: publish t", "1 to 128 letters"),
        ("allow user:a/b publish t", "1 to 128 letters"),
        ("allow user:a* publish t", "1 to 128 letters"),
        ("allow * produce t", "'produce' is no action; the actions are publish, create, subscribe"),
        ("allow * publish, t", "'' is no action"),
        ("allow * publish a*b", r"spelled \\x2a; \* stands at the end only"),
        ("allow * publish {group}/*", r"spelled \\x7b"),
        ("allow * publish a\\b", "backslash"),
        ("allow * subscribe t", "says as whom; `as \\*` is anybody"),
        ("allow * * t", "says as whom"),
        ("allow * publish t as x", "only rules on subscribe and unsubscribe"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        Rule.parse(text)


def test_patterns_spell_all_names() -> None:
    assert Pattern.parse(r"caf\xc3\xa9\x20\x2a").of("") == "café *".encode()
    assert str(Pattern((b"a b*", b"\xff{user}"), is_prefix=True)) == r"a\x20b\x2a{user}\xff\x7buser\x7d*"
    with pytest.raises(InvalidArgumentError, match="a name, or the beginning of names"):
        Pattern.parse("")
    with pytest.raises(InvalidArgumentError, match="at most 8192 bytes"):
        Pattern.parse("x" * 8193)
