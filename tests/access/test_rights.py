"""Compiled rights answer as the rules read one by one do, for any names and rules."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hedwig.access import EVERYBODY, Action, Pattern, Principal, Rule, RuleBook
from hedwig.access.actions import SUBSCRIBERS

USERS = ("ann", "bob", "a")
GROUPS = ("shop", "a")

names = st.sampled_from(USERS)
pieces = st.lists(st.sampled_from([b"a", b"ann", b"/", b"\xff", b"*", b"{user}", b" "]), min_size=1, max_size=4)
bodies = st.one_of(pieces.map(b"".join), st.binary(min_size=1, max_size=6))
patterns = st.builds(
    Pattern,
    st.one_of(st.tuples(bodies), st.tuples(st.just(b""), bodies), st.tuples(bodies, st.just(b"")), st.just((b"",))),
    st.booleans(),
).filter(lambda each: each.is_prefix or each.parts != (b"",))
principals = st.builds(Principal, names, st.frozensets(st.sampled_from(GROUPS)))
actions = st.lists(st.sampled_from(list(Action)), min_size=1, max_size=3).map(
    lambda found: Action(sum({int(each) for each in found}))
)
whos = st.sampled_from([*(f"user:{name}" for name in USERS), *(f"group:{name}" for name in GROUPS), EVERYBODY])


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    allows, wanted = draw(st.booleans()), draw(actions)
    subscribers = None
    if wanted & SUBSCRIBERS and (allows or draw(st.booleans())):
        subscribers = draw(patterns)
    return Rule(allows, draw(whos), wanted, draw(patterns), subscribers)


def is_allowed(book: list[Rule], principal: Principal, action: Action, topic: bytes, subscriber: bytes | None) -> bool:
    """Answer as the page on rules says it, without any of the code that is tested."""
    allowed = False
    for rule in book:
        mine = rule.who in ("*", f"user:{principal.name}") or rule.who.removeprefix("group:") in principal.groups
        if not mine or (rule.who.startswith("user:") and rule.who != f"user:{principal.name}"):
            continue
        fits = _fits(rule.topics, topic, principal.name)
        if subscriber is not None and rule.subscribers is not None:
            fits = fits and _fits(rule.subscribers, subscriber, principal.name)
        if fits and rule.actions & action:
            if not rule.allows:
                return False
            allowed = True
    return allowed


def _fits(pattern: Pattern, name: bytes, user: str) -> bool:
    meant = user.encode().join(pattern.parts)
    return name[: len(meant)] == meant and (pattern.is_prefix or len(name) == len(meant))


@settings(max_examples=300)
@given(st.lists(rules(), max_size=8), principals, st.sampled_from(list(Action)), bodies, bodies)
def test_rights_are_what_the_rules_say(
    book: list[Rule], principal: Principal, action: Action, topic: bytes, subscriber: bytes
) -> None:
    acts_as = subscriber if action in SUBSCRIBERS else None
    expected = is_allowed(book, principal, action, topic, acts_as)
    made = RuleBook.of(book)
    rights = made.rights(principal).of(topic)
    assert (rights.may(action) if acts_as is None else rights.may_as(action, acts_as)) == expected
    allowed, rule = made.why(principal, action, topic, acts_as)
    assert allowed == expected
    assert rule is None or (rule in book and rule.allows == expected)
    assert rule is not None or not expected


@given(rules())
def test_a_rule_is_read_as_it_is_written(rule: Rule) -> None:
    assert Rule.parse(str(rule)) == rule
