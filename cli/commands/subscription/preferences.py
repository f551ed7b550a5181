"""Preferences of subscriptions as options, for `hedwig-admin subscription create` and `subscribe`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.names import FILTER
from hedwig.cli.arguments.option_group import option_group
from hedwig.errors import InvalidArgumentError
from hedwig.model import MessageSeqId, SubscriptionData, SubscriptionPreferences, SubscriptionState
from hedwig.names import parse_name, parse_text
from hedwig.property_filter import with_filter

__all__ = ["NewSubscription", "named_value", "new_subscription_options", "preference_options"]


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """The data of a subscription to create. `given` holds the options that the user gave, as JSON values."""

    data: SubscriptionData
    given: Mapping[str, Any]

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "NewSubscription":
        """Make it from the parsed options."""
        state = SubscriptionState(MessageSeqId(params["consumed"]))
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in params.items() if value}
        return cls(SubscriptionData(preferences=_preferences(params), state=state), given)


_NAMES: Final = ("message_bound", "message_window_size", "message_filter", "filter", "option")
_OPTIONS: Final = (
    click.option(
        "--message-bound",
        type=click.IntRange(1, 2**32 - 1),
        help="N: the hub skips all but the newest N messages.",
    ),
    click.option(
        "--message-window-size",
        type=click.IntRange(1, 2**32 - 1),
        help="N: the hub delivers at most N messages that are not consumed.",
    ),
    click.option("--message-filter", type=FILTER, metavar="NAME", help="The filter that its hub applies."),
    click.option(
        "--filter",
        metavar="EXPRESSION",
        help="Which messages are wanted, by their properties: 'lang = \"de\" and not has draft'. An empty one: all.",
    ),
    click.option("--option", metavar="KEY=VALUE", multiple=True, help="An option for filters; may be repeated."),
)


def new_subscription_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the initial state of a subscription. The command gets it as `new`."""
    consumed = click.option(
        "--consumed",
        type=click.IntRange(0, 2**64 - 1),
        default=0,
        show_default=True,
        help="The id of the last message that counts as consumed; delivery starts after it.",
    )
    return option_group("new", (consumed, *_OPTIONS), ("consumed", *_NAMES), NewSubscription.of)


def preference_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds only the preferences. The command gets them as `preferences`."""
    return option_group("preferences", _OPTIONS, _NAMES, _preferences)


def named_value(text: str, option: str) -> tuple[str, bytes]:
    """Return the two parts of KEY=VALUE, both unescaped as names are. Raises BadParameter of `option`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
    try:
        return parse_text(name), parse_name(value)
    except InvalidArgumentError as exc:
        raise click.BadParameter(str(exc), param_hint=option) from exc


def _preferences(params: Mapping[str, Any]) -> SubscriptionPreferences:
    given = SubscriptionPreferences(
        options=dict(named_value(text, "--option") for text in params["option"]),
        message_bound=params["message_bound"],
        message_window_size=params["message_window_size"],
        message_filter=params["message_filter"],
    )
    expression: str | None = params["filter"]
    if expression is None:
        return given
    if given.message_filter is not None:
        raise click.UsageError("--filter is a message filter of its own; give either it or --message-filter")
    try:
        return with_filter(given, expression)
    except InvalidArgumentError as exc:
        raise click.BadParameter(str(exc), param_hint="--filter") from exc
