"""The texts of errors for operators: one line, which says what to do."""

import errno
import shlex
from typing import Any

from hedwig.errors import (
    BadVersionError,
    ClientAlreadySubscribedError,
    ClientNotSubscribedError,
    CouldNotConnectError,
    HedwigError,
    LocalProtocolError,
    MetadataForbiddenError,
    MetadataUnavailableError,
    OperationError,
    SubscriptionStateExistsError,
    TopicBusyError,
    TopicPersistenceInfoExistsError,
    UncertainAnswerError,
    UncertainStateError,
)
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.names import show_name

__all__ = ["explain", "missing_subscription", "missing_topic", "remedy", "summary"]


def explain(error: HedwigError, url: str) -> str:
    """Return the text of `error` and what to do about it, in one line. `url` is the store or hub that was used."""
    text = " ".join(str(error).split())
    match error:
        case TopicPersistenceInfoExistsError() | SubscriptionStateExistsError():
            return f"{text}; --if-not-exists lets it be"
        case BadVersionError(current=current) if current is not None:
            return f"{text}; it holds {summary(current.value)}: look at it, then give that version"
        case UncertainStateError() | UncertainAnswerError():
            return f"{text}; it may or may not have been done: look before you try again"
        case MetadataForbiddenError():
            return f"{text}; ask the owner of {url} for permission, or name another store"
        case MetadataUnavailableError():
            return f"{text}; see that the store at {url} is up, or give a longer --timeout"
        case CouldNotConnectError():
            return f"{text}; see that a hub is up there, or name another with --hub"
        case ClientAlreadySubscribedError():
            return f"{text}; --mode attach opens it"
        case ClientNotSubscribedError():
            return f"{text}; see who is there with: hedwig-admin subscription list TOPIC"
        case LocalProtocolError():
            return f"{text}; nothing was sent: send less in one message"
        case TopicBusyError():
            return f"{text}; --force-attach takes it from the client that has it open"
        case _:
            return text


def remedy(error: OSError) -> str:
    """Return what to do about a file that cannot be read or written. Callers also offer another path."""
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "ask its owner for permission"
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "make room"
        case errno.ENOENT:
            return "make its directory"
        case _:
            return "see what is there"


def summary(record: Any) -> str:
    """Return a record in a few words."""
    match record:
        case HubInfo():
            return f"owner {record.name} of epoch {record.epoch}"
        case LedgerRanges():
            return counted(len(record.ranges), "ledger")
        case SubscriptionData(state=state) if state is not None:
            return f"consume pointer {state.consumed.local}"
        case _:
            return "no state"


def missing_topic(topic: Topic) -> OperationError:
    return OperationError(
        f"there is no topic '{show_name(topic)}'; see what there is with: hedwig-admin topic list", ExitCode.NOT_FOUND
    )


def missing_subscription(topic: Topic, subscriber: SubscriberId) -> OperationError:
    """Return the error about a subscription that does not exist, of a topic that does."""
    from hedwig.metadata import RecordKey  # A store is loaded when one is used.

    return OperationError(
        f"there is no {RecordKey(topic, subscriber)}; see who is there with: "
        f"hedwig-admin subscription list {shlex.quote(show_name(topic))}",
        ExitCode.NOT_FOUND,
    )
