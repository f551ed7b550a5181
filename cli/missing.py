"""The errors about topics and subscriptions that are not there, which say where to look for those that are."""

import shlex

from hedwig.cli.errors import CommandError, ExitCode
from hedwig.metadata import RecordKey
from hedwig.model import SubscriberId, Topic
from hedwig.names import show_name

__all__ = ["missing_subscription", "missing_topic"]


def missing_topic(topic: Topic) -> CommandError:
    return CommandError(
        f"there is no topic '{show_name(topic)}'; see what there is with: hedwig-admin topic list", ExitCode.NOT_FOUND
    )


def missing_subscription(topic: Topic, subscriber: SubscriberId) -> CommandError:
    """Return the error about a subscription of a topic that is there."""
    return CommandError(
        f"there is no {RecordKey(topic, subscriber)}; see who is there with: "
        f"hedwig-admin subscription list {shlex.quote(show_name(topic))}",
        ExitCode.NOT_FOUND,
    )
