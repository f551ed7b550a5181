"""The commands that the console has beside those of hedwig-admin: those of the original's console, by its names.

Most are other names of commands of hedwig-admin, and take their options. The rest is what only a session can have:
subscriptions that stay open, settings for all further lines, and the lines that were typed.
Source: Hedwig HedwigConsole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from cli.configuration import SETTINGS
from cli.confirmation import confirm
from cli.console_hub_work import check_delivery, remove_subscriptions, stored_pointer
from cli.errors import CommandError, ExitCode, counted
from cli.fields import name_fields
from cli.hub_access import HubAccess, hub_options
from cli.names import SUBSCRIBER, TOPIC, complete_topic
from cli.program import AdminCommand, AdminGroup
from cli.setting_options import (
    cluster_setting_options,
    hub_setting_options,
    ledger_setting_options,
    owner_setting_options,
)
from cli.settings import Settings, pass_settings
from hedwig.client import CreateOrAttach
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import show_name

if TYPE_CHECKING:
    from cli.console_session import ConsoleSession

__all__ = ["console_commands"]

_MODES: Final = {
    "0": CreateOrAttach.CREATE,
    "create": CreateOrAttach.CREATE,
    "1": CreateOrAttach.ATTACH,
    "attach": CreateOrAttach.ATTACH,
    "2": CreateOrAttach.CREATE_OR_ATTACH,
    "create-or-attach": CreateOrAttach.CREATE_OR_ATTACH,
}
_SWITCH: Final = {"on": True, "off": False}
_ALL: Final = str(2**31 - 1)
_ID_MAX: Final = 2**64 - 1
_ANYTHING: Final[dict[str, Any]] = {"ignore_unknown_options": True}
"""Words that look like options go on to the command that they are for, or into a message."""

_Commands: TypeAlias = dict[str, click.Command]
_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def console_commands(session: "ConsoleSession") -> Mapping[str, click.Command]:
    """Return the commands of a session by name."""
    return {**_messages(session), **_subscriptions(session), **_looks(session), **_housekeeping(session)}


def _go_on(session: "ConsoleSession", settings: Settings, *words: str) -> None:
    """Run a command of hedwig-admin in place of this one, by the options that were given to this one."""
    click.get_current_context().exit(session.run_of_admin(list(words), settings))


def _told(*groups: Sequence[_Decorator]) -> _Decorator:
    """Return a decorator that adds options whose values go into the settings, and on from there."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (option for group in groups for option in group):
            command = option(command)
        return command

    return add


def _by_name(*commands: click.Command) -> _Commands:
    return {str(command.name): command for command in commands}


_topic: Final = click.argument("topic", type=TOPIC, shell_complete=complete_topic)
_topic_text: Final = click.argument("topic", shell_complete=complete_topic)
_subscriber: Final = click.argument("subscriber", type=SUBSCRIBER)
_words: Final = click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
_rest: Final = click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]...")
_yes: Final = click.option("--yes", is_flag=True, help="Do not ask.")


def _messages(session: "ConsoleSession") -> _Commands:
    @click.command("pub", cls=AdminCommand, example="pub news hello, world", context_settings=_ANYTHING)
    @_topic_text
    @_words
    @_told(hub_setting_options())
    @pass_settings
    def pub(settings: Settings, topic: str, words: Sequence[str]) -> None:
        """Publish WORDS, joined by blanks, to a topic."""
        _go_on(session, settings, "publish", "--", topic, " ".join(words))

    @click.command("pubsub", cls=AdminCommand, example="pubsub news check 10 hello", context_settings=_ANYTHING)
    @_topic
    @_subscriber
    @click.argument("seconds", type=click.FloatRange(min=0, min_open=True))
    @_words
    @hub_options()
    @pass_settings
    def pubsub(
        settings: Settings, topic: Topic, subscriber: SubscriberId, seconds: float, words: Sequence[str], hub: HubAccess
    ) -> None:
        """Try a topic out: subscribe as SUBSCRIBER-TIME, publish WORDS, wait SECONDS for them, and unsubscribe."""
        output = settings.writer()
        output.record(check_delivery(settings, hub, topic, subscriber, seconds, " ".join(words).encode()))

    @click.command("readtopic", cls=AdminCommand, example="readtopic news 3")
    @_topic_text
    @click.argument("message_id", metavar="[ID]", required=False, type=click.IntRange(0))
    @_told(cluster_setting_options(), owner_setting_options(), ledger_setting_options())
    @pass_settings
    def readtopic(settings: Settings, topic: str, message_id: int | None) -> None:
        """Show all messages of a topic that are kept, from ID on, and consume none: message peek."""
        first = () if message_id is None else ("--from", str(message_id))
        _go_on(session, settings, "message", "peek", "--limit", _ALL, *first, "--", topic)

    return _by_name(pub, pubsub, readtopic)


def _subscriptions(session: "ConsoleSession") -> _Commands:
    @click.command("sub", cls=AdminCommand, example="sub news reader create-or-attach")
    @_topic
    @_subscriber
    @click.argument("mode", type=click.Choice(list(_MODES)), default="attach")
    @click.argument("receive", type=click.BOOL, default=True)
    @hub_options()
    @pass_settings
    def sub(
        settings: Settings, topic: Topic, subscriber: SubscriberId, mode: str, receive: bool, hub: HubAccess
    ) -> None:
        """Open a subscription here, until closesub, unsub or quit, and show and consume what it receives.

        MODE is 0, create: it must be new; 1, attach: it must exist; 2, create-or-attach. With RECEIVE false nothing is
        shown and nothing consumed but by consume, consumeto and consumenext.
        """
        output = settings.writer()
        session.subscriptions.open(settings, hub, topic, subscriber, _MODES[mode], receives=receive)
        output.record(name_fields(topic, subscriber) | {"result": "open", "receives": receive})

    @click.command("closesub", cls=AdminCommand, example="closesub news reader")
    @_topic
    @_subscriber
    @pass_settings
    def closesub(settings: Settings, topic: Topic, subscriber: SubscriberId) -> None:
        """Close a subscription that is open here; it goes on to exist."""
        output = settings.writer()
        found = session.subscriptions.get(settings, topic, subscriber)
        try:
            is_confirmed = found.close()
        finally:
            session.subscriptions.forget(topic, subscriber)
        if not is_confirmed:
            click.echo("its hub did not confirm: the last messages that were consumed may come again", err=True)
        output.record(name_fields(topic, subscriber) | {"result": "closed"})

    @click.command("unsub", cls=AdminCommand, example="unsub news reader --yes")
    @_topic
    @_subscriber
    @_yes
    @pass_settings
    def unsub(settings: Settings, topic: Topic, subscriber: SubscriberId, yes: bool) -> None:
        """Delete a subscription that is open here; unsubscribe deletes any."""
        output = settings.writer()
        found = session.subscriptions.get(settings, topic, subscriber)
        if not yes:
            name = f"the subscription of {show_name(subscriber)!r} to topic {show_name(topic)!r}"
            confirm(f"This deletes {name} for good, with all that it has not consumed")
        found.client.unsubscribe(topic, subscriber)
        session.subscriptions.forget(topic, subscriber)
        found.client.close()
        output.record(name_fields(topic, subscriber) | {"result": "deleted"})

    @click.command("rmsub", cls=AdminCommand, example="rmsub news- 1 3 reader- 1 2 --yes")
    @click.argument("topics")
    @click.argument("first_topic", type=click.IntRange(0))
    @click.argument("last_topic", type=click.IntRange(0))
    @click.argument("subscribers")
    @click.argument("first_subscriber", type=click.IntRange(0))
    @click.argument("last_subscriber", type=click.IntRange(0))
    @_yes
    @hub_options()
    @pass_settings
    def rmsub(
        settings: Settings,
        topics: str,
        first_topic: int,
        last_topic: int,
        subscribers: str,
        first_subscriber: int,
        last_subscriber: int,
        yes: bool,
        hub: HubAccess,
    ) -> None:
        """Subscribe to topics TOPICS1, TOPICS2 and so on as SUBSCRIBERS1 and so on, each, and delete these again.

        What is left afterwards is that none of these subscriptions exists, whether it did before or not.
        """
        output = settings.writer()
        wanted = [
            (_named(TOPIC, topics, number), _named(SUBSCRIBER, subscribers, other))
            for number in range(first_topic, last_topic + 1)
            for other in range(first_subscriber, last_subscriber + 1)
        ]
        if not wanted:
            raise click.UsageError("the last number must not be below the first")
        if not yes:
            confirm(
                f"This deletes {counted(len(wanted), 'subscription')} for good, with all that they have not consumed"
            )
        remove_subscriptions(settings, hub, wanted)
        output.record({"result": "deleted", "subscriptions": len(wanted)})

    @click.command("consumeto", cls=AdminCommand, example="consumeto news reader 3")
    @_topic
    @_subscriber
    @click.argument("message_id", metavar="ID", type=click.IntRange(1, _ID_MAX))
    @pass_settings
    def consumeto(settings: Settings, topic: Topic, subscriber: SubscriberId, message_id: int) -> None:
        """Consume all messages up to ID, of a subscription that is open here."""
        output = settings.writer()
        session.subscriptions.get(settings, topic, subscriber).opened.consume(MessageSeqId(message_id))
        output.record(name_fields(topic, subscriber) | {"consumed": message_id})

    @click.command("consumenext", cls=AdminCommand, example="consumenext news reader 3")
    @_topic
    @_subscriber
    @click.argument("count", metavar="NUMBER", type=click.IntRange(1, _ID_MAX))
    @pass_settings
    def consumenext(settings: Settings, topic: Topic, subscriber: SubscriberId, count: int) -> None:
        """Consume NUMBER messages beyond the pointer in the store, of a subscription that is open here.

        This is what the original's consume does. The store has the pointer as the hub last stored it.
        """
        output = settings.writer()
        found = session.subscriptions.get(settings, topic, subscriber)
        message_id = stored_pointer(settings, topic, subscriber) + count
        found.opened.consume(MessageSeqId(message_id))
        output.record(name_fields(topic, subscriber) | {"consumed": message_id})

    @click.command("consume", cls=AdminCommand, example="consume news reader 3")
    @_topic_text
    @click.argument("subscriber")
    @click.argument("message_id", metavar="ID", type=click.IntRange(1, _ID_MAX))
    @click.option("--force-attach", is_flag=True, help="Take the subscription from whoever has it open elsewhere.")
    @_told(hub_setting_options())
    @pass_settings
    def consume(settings: Settings, topic: str, subscriber: str, message_id: int, force_attach: bool) -> None:
        """Consume all messages up to ID, whether the subscription is open here or not.

        This is hedwig-admin's consume. The original's, by how many messages, is consumenext.
        """
        words = ("--", topic, subscriber, str(message_id))
        if session.subscriptions.find(_named(TOPIC, topic), _named(SUBSCRIBER, subscriber)) is not None:
            click.get_current_context().exit(session.run_words(["consumeto", *words], settings))
        _go_on(session, settings, "consume", *(("--force-attach",) if force_attach else ()), *words)

    return _by_name(sub, closesub, unsub, rmsub, consumeto, consumenext, consume)


def _looks(session: "ConsoleSession") -> _Commands:
    @click.group("show", cls=AdminGroup, example="show topics")
    def show() -> None:
        """Show hubs, topics, or the subscriptions that are open here."""

    @show.command("hubs", example="show hubs")
    @_told(cluster_setting_options())
    @pass_settings
    def hubs(settings: Settings) -> None:
        """Show the hubs that are alive: hub list."""
        _go_on(session, settings, "hub", "list")

    @show.command("topics", example="show topics --limit 100", context_settings=_ANYTHING)
    @_rest
    @pass_settings
    def topics(settings: Settings, rest: Sequence[str]) -> None:
        """Show the names of topics: topic list."""
        _go_on(session, settings, "topic", "list", *rest)

    @show.command("subs", example="show subs")
    @pass_settings
    def subs(settings: Settings) -> None:
        """Show the subscriptions that are open here."""
        rows = [
            name_fields(each.opened.topic, each.opened.subscriber)
            | {"receives": each.receives, "attached": each.opened.is_attached, "why_lost": each.why_lost}
            for each in session.subscriptions
        ]
        settings.writer().listing("subscriptions", rows, ("topic", "subscriber", "receives", "attached", "why_lost"))

    @click.group("describe", cls=AdminGroup, example="describe topic news")
    def describe() -> None:
        """Describe a topic."""

    @describe.command("topic", example="describe topic news")
    @_topic_text
    @click.option("--subscriptions", type=click.IntRange(min=0), default=1000, show_default=True, help="At most.")
    @pass_settings
    def topic_of(settings: Settings, topic: str, subscriptions: int) -> None:
        """Show owner, ledgers and subscriptions of a topic: topic show."""
        _go_on(session, settings, "topic", "show", "--subscriptions", str(subscriptions), "--", topic)

    @click.command("format", cls=AdminCommand, example="format -force")
    @click.option("-force", "--force", "force", is_flag=True, help="Do not ask.")
    @pass_settings
    def wipe(settings: Settings, force: bool) -> None:
        """Delete all metadata of all topics, and lay the store out anew: metadata format --wipe."""
        _go_on(session, settings, "metadata", "format", "--wipe", *(("--yes",) if force else ()))

    return _by_name(show, describe, wipe)


def _housekeeping(session: "ConsoleSession") -> _Commands:
    @click.command("set", cls=AdminCommand, example="set hub 127.0.0.1:4080")
    @click.argument("name", required=False, type=click.Choice(["printwatches", *SETTINGS]))
    @click.argument("value", required=False)
    @pass_settings
    def set_one(settings: Settings, name: str | None, value: str | None) -> None:
        """Set what all further lines go by; without NAME, show what is set.

        printwatches is on or off: whether it is said when the delivery to a subscription that is open here ends.
        """
        output = settings.writer()
        if name is not None and value is None:
            raise click.UsageError(f"give a value for {name}")
        if name == "printwatches":
            if value not in _SWITCH:
                raise click.UsageError("printwatches is on or off")
            session.says_events = _SWITCH[value]
        elif name is not None and value is not None:
            try:
                session.flags[name] = SETTINGS[name].parse(value)
            except ValueError as exc:
                raise click.UsageError(f"{name} is {value!r}; {exc}") from exc
        known = session.settings()
        values = {key: known.chosen(key).value for key in SETTINGS}
        output.record({"printwatches": "on" if session.says_events else "off"} | values)

    @click.command("history", cls=AdminCommand, example="history")
    @pass_settings
    def history(settings: Settings) -> None:
        """Show what was typed; redo repeats a line by its number."""
        rows = [{"number": number, "line": line} for number, line in enumerate(session.lines, start=1)]
        settings.writer().listing("lines", rows, ("number", "line"))

    @click.command("redo", cls=AdminCommand, example="redo 1")
    @click.argument("number", metavar="NUMBER|!")
    def redo(number: str) -> None:
        """Run a line again: the one of this NUMBER in history, or, with !, the last one."""
        wanted = len(session.lines) if number == "!" else int(number) if number.isdecimal() else 0
        if not 1 <= wanted <= len(session.lines):
            raise CommandError(f"there is no line {number!r}; see history", ExitCode.NOT_FOUND)
        line = session.lines[wanted - 1]
        click.echo(line, err=True)
        session.lines.append(line)
        click.get_current_context().exit(session.run(line))

    @click.command("help", cls=AdminCommand, example="help pub")
    @click.argument("command", nargs=-1)
    def show_help(command: Sequence[str]) -> None:
        """Explain a command; without COMMAND, list all."""
        click.get_current_context().exit(session.run_words([*command, "--help"]))

    @click.command("quit", cls=AdminCommand, example="quit")
    def leave() -> None:
        """Close all subscriptions that are open here, and leave."""
        session.is_over = True

    @click.command("exit", cls=AdminCommand, example="exit")
    def leave_too() -> None:
        """Close all subscriptions that are open here, and leave."""
        session.is_over = True

    @click.command("console", cls=AdminCommand, example="help", hidden=True)
    def again() -> None:
        """Say that this is the console."""
        raise CommandError("this is the console already; help lists its commands", ExitCode.USAGE)

    return _by_name(set_one, history, redo, show_help, leave, leave_too, again)


def _named(kind: Any, text: str, number: int | None = None) -> Any:
    """Return a name of some kind: `text` and a number. Raises click.BadParameter."""
    convert: Callable[..., Any] = kind.convert
    return convert(text if number is None else f"{text}{number}", None, click.get_current_context())
