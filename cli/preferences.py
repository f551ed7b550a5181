"""What a new subscription starts with: the options of `hedwig-admin subscription create`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from cli.option_group import option_group
from hedwig.errors import InvalidArgumentError
from hedwig.model import MessageSeqId, SubscriptionData, SubscriptionPreferences, SubscriptionState
from hedwig.names import parse_name

__all__ = ["NewSubscription", "preference_options"]


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """The data of a subscription to be created; `given` holds the options that the user gave, as JSON values."""

    data: SubscriptionData
    given: Mapping[str, Any]

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "NewSubscription":
        """Make it of the parsed options."""
        preferences = SubscriptionPreferences(
            options=dict(_option(text) for text in params["option"]),
            message_bound=params["message_bound"],
            message_window_size=params["message_window_size"],
            message_filter=params["message_filter"],
        )
        state = SubscriptionState(MessageSeqId(params["consumed"]))
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in params.items() if value}
        return cls(SubscriptionData(preferences=preferences, state=state), given)


def preference_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options; the command gets them as `new`."""
    options = (
        click.option(
            "--consumed",
            type=click.IntRange(0, 2**64 - 1),
            default=0,
            show_default=True,
            help="The last message that counts as consumed: it starts after that one.",
        ),
        click.option("--message-bound", type=click.IntRange(1, 2**32 - 1), help="Skip all but the newest so many."),
        click.option(
            "--message-window-size", type=click.IntRange(1, 2**32 - 1), help="Most messages delivered, not consumed."
        ),
        click.option("--message-filter", metavar="NAME", help="The filter that its hub applies."),
        click.option("--option", metavar="KEY=VALUE", multiple=True, help="An option for filters; may be repeated."),
    )
    names = ("consumed", "message_bound", "message_window_size", "message_filter", "option")
    return option_group("new", options, names, NewSubscription.of)


def _option(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--option")
    try:
        return name, parse_name(value)
    except InvalidArgumentError as exc:
        raise click.BadParameter(str(exc), param_hint="--option") from exc
