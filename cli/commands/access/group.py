"""The commands `hedwig-admin access …`: the rules on who may do what."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

from hedwig.access import Action, Limit, Pattern, Principal, Rule, RuleBook, parse_rule
from hedwig.access.actions import SUBSCRIBERS
from hedwig.access.principals import check_principal_name, check_who
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC, CheckedName
from hedwig.cli.arguments.selection import Selection, cut, list_options
from hedwig.cli.commands.access.count import count
from hedwig.cli.commands.access.file import export_rules, import_rules
from hedwig.cli.commands.access.status import status
from hedwig.cli.commands.access.token import token
from hedwig.cli.commands.access.user import user
from hedwig.cli.output.formats import Row
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import InvalidArgumentError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import SubscriberId, Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.store import with_store, with_store_to_write

__all__ = ["access"]

Rules: TypeAlias = tuple[Rule | Limit, ...]

_COLUMNS: Final = ("effect", "who", "actions", "topics", "as", "version")


def _who(text: str) -> str:
    check_who(text)
    return text


def _user_name(text: str) -> str:
    check_principal_name(text.removeprefix("user:"))
    return text.removeprefix("user:")


def _group(text: str) -> str:
    check_principal_name(text)
    return text


def _key(who: str, number: int) -> bytes:
    """Return the name of a rule in listings: whom it is for, and which of theirs it is."""
    return who.encode() + b"\0" + number.to_bytes(4, "big")


def _one_action(text: str) -> Action:
    action = Action.parse(text)
    if len(action) != 1:
        raise InvalidArgumentError(f"name one action, not {text!r}")
    return action


_LAST: Final = 0xFFFF_FFFF
"""Beyond the number of rules that anybody has."""
_WHO: Final = CheckedName("who", _who)
_AFTER: Final = CheckedName("who", lambda text: _key(_who(text), _LAST))
_USER: Final = CheckedName("user", _user_name)
_GROUP: Final = CheckedName("group", _group)
_ACTIONS: Final = CheckedName("actions", Action.parse)
_ACTION: Final = CheckedName("action", _one_action)
_PATTERN: Final = CheckedName("pattern", Pattern.parse)


@click.group(cls=AdminGroup, example="hedwig-admin access list")
def access() -> None:
    """Show and change the rules on who may do what, and how much.

    A rule is for user:NAME, group:NAME, or * for everybody. It names topics by a PATTERN: a name, or the beginning of
    names and a *. {user} in it is the name of whoever asks. A rule that denies wins, and what no rule allows is denied.
    """


def _rule_arguments(command: Any) -> Any:
    """Add the words of a rule."""
    for add in (
        click.option("--as", "subscribers", type=_PATTERN, metavar="PATTERN", help="Only as these subscribers."),
        click.argument("topics", type=_PATTERN, metavar="PATTERN"),
        click.argument("actions", type=_ACTIONS),
        click.argument("who", type=_WHO),
    ):
        command = add(command)
    return command


def _change_options(command: Any) -> Any:
    """Add the options of a change."""
    for add in (
        click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing."),
        click.option(
            "--expected-version",
            type=click.IntRange(min=0),
            metavar="VERSION",
            help="Only if the rules of WHO are at this version.",
        ),
    ):
        command = add(command)
    return command


@access.command("allow", example="hedwig-admin access allow group:shop publish,create 'orders/*'")
@_rule_arguments
@_change_options
@pass_settings
def allow(settings: Settings, /, **words: Any) -> None:
    """Add a rule that allows ACTIONS on topics.

    Actions are publish, create, subscribe, unsubscribe, read, view, operate and grant, with commas between them, or *
    for all. A rule that allows to subscribe or unsubscribe says as whom, by --as.
    """
    _add(settings, allows=True, **words)


@access.command("deny", example="hedwig-admin access deny user:mallory '*' '*'")
@_rule_arguments
@_change_options
@pass_settings
def deny(settings: Settings, /, **words: Any) -> None:
    """Add a rule that denies ACTIONS on topics, whatever other rules allow."""
    _add(settings, allows=False, **words)


def _add(
    settings: Settings,
    *,
    allows: bool,
    who: str,
    actions: Action,
    topics: Pattern,
    subscribers: Pattern | None,
    expected_version: int | None,
    dry_run: bool,
) -> None:
    try:
        rule = Rule(allows, who, actions, topics, subscribers)
    except InvalidArgumentError as exc:
        raise click.UsageError(str(exc)) from exc
    done = "would add" if dry_run else "added"

    def added(rules: Rules) -> Rules:
        return rules if rule in rules else (*rules, rule)

    _change(settings, rule, added, {True: done, False: "present"}, expected_version, dry_run=dry_run)


@access.command("limit", example="hedwig-admin access limit group:shop publishes_per_s=1000 'orders/*'")
@click.argument("who", type=_WHO)
@click.argument("limits")
@click.argument("topics", type=_PATTERN, metavar="PATTERN")
@_change_options
@pass_settings
def limit(
    settings: Settings, /, who: str, limits: str, topics: Pattern, expected_version: int | None, dry_run: bool
) -> None:
    """Limit how much WHO may publish to topics, how many connections WHO may have, or what WHO may make.

    LIMITS are publishes_per_s=N, publish_bytes_per_s=SIZE, backlog_bytes_max=SIZE, connections=N, topics_max=N and
    subscriptions_max=N, with commas between; connections are limited with the PATTERN * only. A limit of a group is for
    all its users together, one of * is for each user by itself, and so is one whose PATTERN has {user}. Each hub counts
    by itself. But with topics_max and subscriptions_max, WHO may make no more once there are so many in the deployment,
    whoever made them. With backlog_bytes_max, WHO may publish no more to a topic of which subscriptions have not
    consumed so much, whoever published it. A limit for the same WHO and PATTERN is replaced.
    """
    made = _parsed(f"limit {who} {limits} {topics}")
    assert isinstance(made, Limit), "the text of a limit"

    def limited(rules: Rules) -> Rules:
        return (*(each for each in rules if not isinstance(each, Limit) or each.topics != topics), made)

    done = "would set" if dry_run else "set"
    _change(settings, made, limited, {True: done, False: "present"}, expected_version, dry_run=dry_run)


@access.command("revoke", example="hedwig-admin access revoke allow group:shop publish,create 'orders/*' --if-exists")
@click.argument("effect", type=click.Choice(["allow", "deny", "limit"]))
@click.argument("who", type=_WHO)
@click.argument("actions", metavar="ACTIONS|LIMITS")
@click.argument("topics", type=_PATTERN, metavar="PATTERN")
@click.option("--as", "subscribers", type=_PATTERN, metavar="PATTERN", help="Only as these subscribers.")
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such rule.")
@_change_options
@pass_settings
def revoke(
    settings: Settings,
    /,
    effect: str,
    who: str,
    actions: str,
    topics: Pattern,
    subscribers: Pattern | None,
    if_exists: bool,
    expected_version: int | None,
    dry_run: bool,
) -> None:
    """Remove a rule or a limit, named by its words as `access list` shows them."""
    rule = _parsed(f"{effect} {who} {actions} {topics}" + (f" as {subscribers}" if subscribers is not None else ""))

    def removed(rules: Rules) -> Rules:
        if rule not in rules and not if_exists:
            raise OperationError(
                f"there is no rule {str(rule)!r}; hedwig-admin access list {who} shows those that there are",
                ExitCode.NOT_FOUND,
            )
        return tuple(each for each in rules if each != rule)

    done = "would remove" if dry_run else "removed"
    _change(settings, rule, removed, {True: done, False: "absent"}, expected_version, dry_run=dry_run)


def _parsed(text: str) -> Rule | Limit:
    try:
        return parse_rule(text)
    except InvalidArgumentError as exc:
        raise click.UsageError(str(exc)) from exc


def _change(
    settings: Settings,
    rule: Rule | Limit,
    function: Callable[[Rules], Rules],
    results: dict[bool, str],
    expected: int | None,
    *,
    dry_run: bool,
) -> None:
    """Change the rules of one, and report. `results`: the word for a change, and that for none."""
    output = settings.writer()

    async def change(store: MetadataStore) -> None:
        records = RuleRecords(store.named_records)
        is_changed = False

        def changed(rules: Rules) -> Rules:
            nonlocal is_changed
            wanted = function(rules)
            is_changed = wanted != rules
            return wanted

        if dry_run:
            kept = await records.read_of(rule.who)
            changed(kept.value)
        else:
            kept = await records.change(rule.who, changed, expected=expected)
        output.record({**_fields(rule, kept.version), "result": results[is_changed]})

    (with_store if dry_run else with_store_to_write)(settings.deployment, change)


@access.command("list", example="hedwig-admin access list")
@click.argument("who", type=_WHO, required=False)
@list_options(_AFTER)
@pass_settings
def list_rules(settings: Settings, /, who: str | None, selection: Selection) -> None:
    """List the rules, all or those for WHO, by whom they are for. The version is that of all rules for the same WHO.

    The names of --prefix and --start-after are those of users and groups, as user:ann.
    """
    output = settings.writer()

    async def read(store: MetadataStore) -> None:
        kept = await RuleRecords(store.named_records).read()
        rows = [
            (_key(each, number), _fields(rule, of_one.version))
            for each, of_one in kept.items()
            if who in (None, each)
            for number, rule in enumerate(of_one.value)
        ]
        output.begin("rules", _COLUMNS, _COLUMNS)
        selected, token = cut(selection, f"rules {who or ''}", rows, lambda row: row[0])
        output.page([row for _, row in selected])
        output.end(token)

    with_store(settings.deployment, read)


@access.command("check", example="hedwig-admin access check ann publish orders/1 --group shop")
@click.argument("user", type=_USER)
@click.argument("action", type=_ACTION)
@click.argument("topic", type=TOPIC)
@click.option("--as", "subscriber", type=SUBSCRIBER, metavar="SUBSCRIBER", help="As which subscriber.")
@click.option("--group", "groups", type=_GROUP, multiple=True, help="A group of the user; may be given again.")
@pass_settings
def check(
    settings: Settings,
    user: str,
    action: Action,
    topic: Topic,
    subscriber: SubscriberId | None,
    groups: tuple[str, ...],
) -> None:
    """Say whether a user may do something, and which rule says so."""
    if (action in SUBSCRIBERS) != (subscriber is not None):
        raise click.UsageError("give --as SUBSCRIBER with subscribe and unsubscribe, and with no other action")
    output = settings.writer()
    principal = Principal(user, frozenset(groups))

    async def ask(store: MetadataStore) -> None:
        kept = await RuleRecords(store.named_records).read()
        book = RuleBook({who: of_one.value for who, of_one in kept.items()})
        allowed, rule = book.why(principal, action, topic, subscriber)
        asked = {"user": user, "action": action.spelled} | name_fields(topic, subscriber)
        output.record({**asked, "allowed": allowed, "rule": None if rule is None else str(rule)})

    with_store(settings.deployment, ask)


for command in (count, export_rules, import_rules, status, token, user):
    access.add_command(command)


def _fields(rule: Rule | Limit, version: int) -> Row:
    subscribers = None if isinstance(rule, Limit) else rule.subscribers
    return {
        "effect": "limit" if isinstance(rule, Limit) else "allow" if rule.allows else "deny",
        "who": rule.who,
        "actions": rule.spelled if isinstance(rule, Limit) else rule.actions.spelled,
        "topics": str(rule.topics),
        "as": None if subscribers is None else str(subscribers),
        "version": version,
    }
