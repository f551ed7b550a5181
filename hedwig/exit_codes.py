"""How a command ended, as scripts see it: the same codes for every command of the project."""

from enum import IntEnum

from hedwig.errors import (
    BadVersionError,
    ClientAlreadySubscribedError,
    ClientNotSubscribedError,
    ConfigurationError,
    CouldNotConnectError,
    InvalidArgumentError,
    LocalProtocolError,
    MetadataForbiddenError,
    MetadataUnavailableError,
    NoRecordError,
    NoSuchTopicError,
    NotResponsibleForTopicError,
    ServiceDownError,
    UncertainAnswerError,
    UncertainStateError,
)

__all__ = ["ExitCode", "exit_code_of_error"]


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    VERSION_CONFLICT = 4
    OUTCOME_UNKNOWN = 5
    UNAVAILABLE = 6
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, as shells report it."""
    PIPE_CLOSED = 141
    """Whoever read standard output left: 128 + SIGPIPE."""


def exit_code_of_error(error: BaseException) -> ExitCode:
    """Return the exit code for an error of the core; FAILED for any other."""
    match error:
        case UncertainStateError() | UncertainAnswerError():
            return ExitCode.OUTCOME_UNKNOWN
        case MetadataForbiddenError():
            return ExitCode.FAILED  # Trying again does not help, as UNAVAILABLE would say.
        case MetadataUnavailableError() | CouldNotConnectError() | ServiceDownError() | NotResponsibleForTopicError():
            return ExitCode.UNAVAILABLE
        case BadVersionError() | ClientAlreadySubscribedError():
            return ExitCode.VERSION_CONFLICT
        case NoRecordError() | ClientNotSubscribedError() | NoSuchTopicError():
            return ExitCode.NOT_FOUND
        case InvalidArgumentError() | ConfigurationError() | LocalProtocolError():
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILED
