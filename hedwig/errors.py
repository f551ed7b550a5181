"""The errors of Hedwig::

    HedwigError
    ├── InvalidArgumentError (a ValueError)     the caller's input; nothing was sent
    │   ├── NameLimitError                      a topic or subscriber id of a forbidden length
    │   └── RecordTooLargeError                 a record whose encoded form exceeds the limit
    ├── OperationError                          a command or job cannot go on: one line, and an exit code
    │   ├── BenchmarkError (of benchmarks)      something could not be measured
    │   ├── DevError (of cli.dev)               a server cannot be started or stopped
    │   │   ├── NotAnsweringError               it runs, but did not answer before the deadline
    │   │   ├── NotReadyError                   it does not do its work yet
    │   │   └── UnknownServerError              there is none of that name
    │   ├── EndpointError (of operations)       an admin endpoint did not answer properly
    │   │   └── RefusedError                    it refused the request
    │   └── JobError (of pipeline)              a job cannot go on
    ├── ConfigurationError                      a URL or option that cannot work
    │   └── MissingExtraError                   an extra that is not installed; says which one to install
    ├── ExportFileError                         a file that is no complete export of metadata; says what is wrong
    ├── ProtocolError                           bytes that are not Hedwig's protocol; the connection is over
    │   ├── RemoteProtocolError                 the other end sent them
    │   └── LocalProtocolError                  this end was about to send them
    ├── ClientClosedError                       the client was closed before; nothing was sent
    ├── SubscriptionClosedError                 the subscription is not open here any more
    ├── ServiceError                            a request to a hub failed; named by its status code
    │   ├── MalformedRequestError               401
    │   ├── NotPermittedError                   401, from a hub that says so: the rules do not allow it
    │   ├── NoSuchTopicError                    402
    │   ├── ClientAlreadySubscribedError        403
    │   ├── ClientNotSubscribedError            404
    │   ├── CouldNotConnectError                405, made by the client: no hub could be reached
    │   │   ├── HubNotTrustedError              it does not speak TLS, or its certificate is not valid
    │   │   └── NotAuthenticatedError           it does not take the client for who it says it is
    │   ├── TopicBusyError                      406
    │   ├── NotResponsibleForTopicError         501, after the most redirects allowed
    │   ├── ServiceDownError                    502, and every status that has no class of its own
    │   │   ├── QuotaExceededError              the user is over a limit; says when to try again
    │   │   └── NotLetInError (of hub)          ZooKeeper answers, and does not let this session do it
    │   ├── UncertainAnswerError                503, made by the client: sent, and not answered
    │   └── InvalidMessageFilterError           504
    ├── MetadataError
    │   ├── BadVersionError                     the record is not at the version given; carries the current record
    │   │   ├── TopicOwnerInfoExistsError       NEW, but present
    │   │   ├── TopicPersistenceInfoExistsError
    │   │   └── SubscriptionStateExistsError
    │   ├── NoRecordError                       a version was given, but there is no record
    │   │   ├── NoTopicOwnerInfoError
    │   │   ├── NoTopicPersistenceInfoError
    │   │   └── NoSubscriptionStateError
    │   ├── LayoutError
    │   │   ├── LayoutMissingError              the store was never formatted; says the command that does it
    │   │   │   └── NoMetadataError             there is no store at all: the URL may be wrong
    │   │   └── LayoutMismatchError             another backend, or another major format, wrote it
    │   ├── StandaloneHubExistsError            the store belongs to another standalone hub; names it
    │   ├── CorruptRecordError                  stored bytes that no codec of ours understands
    │   ├── TooManyNamesError                   ZooKeeper's reply would have more names than the limit
    │   └── MetadataUnavailableError            the store could not be asked: surely not applied
    │       ├── MetadataForbiddenError          the store forbids it: a retry does not help
    │       └── UncertainStateError             it was asked and did not answer: the outcome is not known
    ├── LedgerError
    │   ├── NoSuchLedgerError                   never created, or deleted
    │   ├── LedgerFencedError                   an append to a ledger that was taken over from its writer
    │   │   └── LogTakenOverError               a change of a log that another hub, or an import, has changed
    │   ├── LedgerClosedError                   an append to a ledger that was sealed
    │   ├── EntryOrderError                     an append out of turn, or behind one that failed
    │   ├── CorruptEntryError                   stored bytes are damaged; names the file and the offset
    │   ├── LedgerStoreLockedError              another process uses the directory
    │   └── LedgerStoreUnavailableError         the store could not do it: surely not stored
    │       ├── LedgerStoreClosedError          it was closed
    │       ├── LedgerStoreFullError            no space is left; reads go on, and appends once there is space
    │       └── LedgerWriteError                the disk failed in the middle: the outcome is not known
    ├── ChangesLostError (of metadata)          some changes are unknown: begin again
    ├── ChangesUnsupportedError                 the store cannot report changes
    ├── CopyConflictError                       the store holds another record than the one to be copied
    ├── FreezeLostError                         another process has changed the freeze of the store
    ├── LogConflictError                        the store has shared logs of another deployment
    ├── MigrationError                          a migration cannot begin or go on
    ├── StoreFrozenError                        the store is frozen, or its records were moved
    ├── SweepHoldLostError                      hubs swept the shared logs while ranges were brought in
    ├── NotFrozenError (of hub)                 a hub was to freeze, but the store is not frozen
    ├── StillFrozenError                        a hub was to thaw, but the store is still frozen
    ├── OtherSparkError (of pipeline)           the release of PySpark does not fit
    ├── RowsNotWrittenError                     some rows were not written
    └── TargetFrozenError                       the target of a job was frozen meanwhile

`happened` says whether the operation took effect nevertheless: "no", "yes" or "unknown". For most errors it is "no".
For UncertainStateError, UncertainAnswerError and LedgerWriteError it is "unknown": a caller that catches one must read
before it decides anything.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from hedwig.exit_codes import ExitCode
from hedwig.status import StatusCode
from hedwig.versions import Version, Versioned

__all__ = [
    "BadVersionError",
    "ClientAlreadySubscribedError",
    "ClientClosedError",
    "ClientNotSubscribedError",
    "ConfigurationError",
    "CorruptEntryError",
    "CorruptRecordError",
    "CouldNotConnectError",
    "EntryOrderError",
    "ExportFileError",
    "Happened",
    "HedwigError",
    "HubNotTrustedError",
    "InvalidArgumentError",
    "InvalidMessageFilterError",
    "LayoutError",
    "LayoutMismatchError",
    "LayoutMissingError",
    "LedgerClosedError",
    "LedgerError",
    "LedgerFencedError",
    "LedgerStoreClosedError",
    "LedgerStoreFullError",
    "LedgerStoreLockedError",
    "LedgerStoreUnavailableError",
    "LedgerWriteError",
    "LocalProtocolError",
    "MalformedRequestError",
    "MetadataError",
    "MetadataForbiddenError",
    "MetadataUnavailableError",
    "MissingExtraError",
    "NameLimitError",
    "NoMetadataError",
    "NoRecordError",
    "NoSubscriptionStateError",
    "NoSuchLedgerError",
    "NoSuchTopicError",
    "NoTopicOwnerInfoError",
    "NoTopicPersistenceInfoError",
    "NotAuthenticatedError",
    "NotPermittedError",
    "NotResponsibleForTopicError",
    "OperationError",
    "ProtocolError",
    "QuotaExceededError",
    "RecordTooLargeError",
    "RemoteProtocolError",
    "ServiceDownError",
    "ServiceError",
    "StandaloneHubExistsError",
    "SubscriptionClosedError",
    "SubscriptionStateExistsError",
    "TooManyNamesError",
    "TopicBusyError",
    "TopicOwnerInfoExistsError",
    "TopicPersistenceInfoExistsError",
    "UncertainAnswerError",
    "UncertainStateError",
    "exit_code_of",
]


Happened: TypeAlias = Literal["no", "yes", "unknown"]


class HedwigError(Exception):
    """The root of all errors that Hedwig raises on purpose."""

    status: ClassVar[StatusCode] = StatusCode.UNEXPECTED_CONDITION
    happened: Happened = "no"
    """Whether the operation took effect nevertheless."""


class InvalidArgumentError(HedwigError, ValueError):
    """An invalid argument, refused before anything is sent."""

    status = StatusCode.MALFORMED_REQUEST


class NameLimitError(InvalidArgumentError):
    """A topic or subscriber id that is empty or longer than the limit."""


class RecordTooLargeError(InvalidArgumentError):
    """A record whose encoded form exceeds the limit that holds on every backend."""


class OperationError(HedwigError):
    """A command or a job cannot go on. The text says in one line what failed, on what, why, and what to do.

    `code` is the exit code of the command.
    """

    def __init__(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text)
        self.code = code
        self.happened = "unknown" if code is ExitCode.OUTCOME_UNKNOWN else "no"


class ConfigurationError(HedwigError):
    """A URL or an option that cannot work as given; the text says what to change."""


class MissingExtraError(ConfigurationError, ImportError):
    """A package of an extra is not installed; the text says which extra to install."""


class ExportFileError(HedwigError):
    """A file is no export of metadata, or cut short, damaged or of a newer format. The text names file and fault."""


class ProtocolError(HedwigError):
    """Bytes, or an order of messages, that the wire protocol does not allow."""

    status = StatusCode.MALFORMED_REQUEST


class RemoteProtocolError(ProtocolError):
    """The other end broke the protocol; its connection is closed, and nothing else is affected."""


class LocalProtocolError(ProtocolError):
    """This end was about to break the protocol; nothing was sent."""


class ClientClosedError(HedwigError):
    """The client was closed before the call; nothing was sent."""


class SubscriptionClosedError(HedwigError):
    """The subscription is not open here any more; the text says why.

    Another client took it over by force, or its connection was lost and it does not resubscribe, or it was closed.
    """

    status = StatusCode.TOPIC_BUSY


class ServiceError(HedwigError):
    """A request to a hub failed. `code` is the status of the answer, `text` the hub's explanation."""

    def __init__(self, text: str, code: StatusCode | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = self.status if code is None else code


class MalformedRequestError(ServiceError):
    """The hub cannot understand the request."""

    status = StatusCode.MALFORMED_REQUEST


class NotPermittedError(ServiceError):
    """The rules of the deployment do not allow the request. A retry does not help."""

    # Hubs and clients of the original know no status of its own.
    status = StatusCode.MALFORMED_REQUEST


class NoSuchTopicError(ServiceError):
    """The topic does not exist, or it has no subscriber but must have one."""

    status = StatusCode.NO_SUCH_TOPIC


class ClientAlreadySubscribedError(ServiceError):
    """The subscription was to be created, but it exists."""

    status = StatusCode.CLIENT_ALREADY_SUBSCRIBED


class ClientNotSubscribedError(ServiceError):
    """The subscription does not exist."""

    status = StatusCode.CLIENT_NOT_SUBSCRIBED


class CouldNotConnectError(ServiceError):
    """No connection to the hub could be made; nothing was sent."""

    status = StatusCode.COULD_NOT_CONNECT


class HubNotTrustedError(CouldNotConnectError):
    """No TLS connection: the hub does not speak TLS, or its certificate is not valid. A retry does not help."""


class NotAuthenticatedError(CouldNotConnectError):
    """The hub does not take the client for who it says it is, or knows no way to find out. A retry does not help."""

    # As NotPermittedError.
    status = StatusCode.MALFORMED_REQUEST


class TopicBusyError(ServiceError):
    """The subscription is served on another channel, and this request does not force it."""

    status = StatusCode.TOPIC_BUSY


class NotResponsibleForTopicError(ServiceError):
    """The request was redirected from hub to hub, and no hub accepted it."""

    status = StatusCode.NOT_RESPONSIBLE_FOR_TOPIC


class ServiceDownError(ServiceError):
    """The hub could not serve the request."""

    status = StatusCode.SERVICE_DOWN


class QuotaExceededError(ServiceDownError):
    """The user does more than a limit allows. `retry_after_s` is when to try again; None if the hub did not say."""

    def __init__(self, text: str, retry_after_s: float | None = None, code: StatusCode | None = None) -> None:
        super().__init__(text, code)
        self.retry_after_s = retry_after_s


class UncertainAnswerError(ServiceError):
    """The request was sent and not answered: it may have taken effect."""

    status = StatusCode.UNCERTAIN_STATE
    happened = "unknown"


class InvalidMessageFilterError(ServiceError):
    """The hub does not have the message filter that the subscription names."""

    status = StatusCode.INVALID_MESSAGE_FILTER


class MetadataError(HedwigError):
    """The root of the errors of the metadata managers."""


class BadVersionError(MetadataError):
    """The record exists but is not at the version given; nothing was written.

    `current` is the record as it was read when the write was refused.
    """

    status = StatusCode.BAD_VERSION

    def __init__(self, message: str, current: Versioned[Any] | None = None) -> None:
        super().__init__(message, current)
        self.message = message
        self.current = current

    def __str__(self) -> str:
        return self.message

    @property
    def current_version(self) -> Version | None:
        return self.current.version if self.current is not None else None


class TopicOwnerInfoExistsError(BadVersionError):
    """An owner record was to be created, but the topic has one."""

    status = StatusCode.TOPIC_OWNER_INFO_EXISTS


class TopicPersistenceInfoExistsError(BadVersionError):
    """A persistence record was to be created, but the topic has one."""

    status = StatusCode.TOPIC_PERSISTENCE_INFO_EXISTS


class SubscriptionStateExistsError(BadVersionError):
    """A subscription was to be created, but it exists."""

    status = StatusCode.SUBSCRIPTION_STATE_EXISTS


class NoRecordError(MetadataError):
    """A version was given, but the record is absent or released; nothing was written."""


class NoTopicOwnerInfoError(NoRecordError):
    """The topic has no owner record."""

    status = StatusCode.NO_TOPIC_OWNER_INFO


class NoTopicPersistenceInfoError(NoRecordError):
    """The topic has no persistence record."""

    status = StatusCode.NO_TOPIC_PERSISTENCE_INFO


class NoSubscriptionStateError(NoRecordError):
    """The subscription does not exist."""

    status = StatusCode.NO_SUBSCRIPTION_STATE


class LayoutError(MetadataError):
    """The store cannot be used with its layout."""


class LayoutMissingError(LayoutError):
    """The store, or a table of it, does not exist; the text names the command that creates it."""


class NoMetadataError(LayoutMissingError):
    """There is no store at all: no table, and nothing that an older release has left."""


class LayoutMismatchError(LayoutError):
    """Another backend, or another major format, wrote this store; the text names both."""


class StandaloneHubExistsError(MetadataError):
    """Another standalone hub is registered in the store; nothing was written.

    `hub_id` and `address` are that hub's; the text names both, and what to do.
    """

    def __init__(self, message: str, hub_id: str, address: str) -> None:
        super().__init__(message, hub_id, address)
        self.message = message
        self.hub_id = hub_id
        self.address = address

    def __str__(self) -> str:
        return self.message


class CorruptRecordError(MetadataError):
    """A stored record cannot be decoded; the text names the record and what is wrong with it.

    `version` is the version of the damaged record, by which a caller may delete it. It is None if that is unreadable
    too.
    """

    def __init__(self, message: str, version: Version | None = None) -> None:
        super().__init__(message)
        self.version = version


class TooManyNamesError(MetadataError):
    """A node of ZooKeeper has more children than may be named in one reply; the names were not requested."""


class MetadataUnavailableError(MetadataError):
    """The store could not be reached in time; the operation was surely not applied."""

    status = StatusCode.SERVICE_DOWN


class MetadataForbiddenError(MetadataUnavailableError):
    """The store, or the file system below it, does not permit the operation; it was not applied."""


class UncertainStateError(MetadataUnavailableError):
    """The operation was sent and its outcome could not be learned; read before deciding."""

    status = StatusCode.UNCERTAIN_STATE
    happened = "unknown"


class LedgerError(HedwigError):
    """The root of the errors of a ledger store."""


class NoSuchLedgerError(LedgerError):
    """The ledger was never created, or was deleted."""


class LedgerFencedError(LedgerError):
    """The ledger was taken over from the process that wrote it; nothing was appended."""


class LedgerClosedError(LedgerError):
    """The ledger was sealed; nothing was appended."""


class EntryOrderError(LedgerError):
    """The entry id is not the next one of its ledger, or an append before it failed; nothing was appended."""


class CorruptEntryError(LedgerError):
    """Stored bytes are damaged. `path` and `offset` say where; the text names the entry if it is known."""

    def __init__(self, message: str, path: str, offset: int) -> None:
        super().__init__(message, path, offset)
        self.message = message
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        return self.message


class LedgerStoreLockedError(LedgerError):
    """Another process has the store's directory open; the text names it."""

    status = StatusCode.SERVICE_DOWN


class LedgerStoreUnavailableError(LedgerError):
    """The store could not do it; nothing was stored."""

    status = StatusCode.SERVICE_DOWN


class LedgerStoreClosedError(LedgerStoreUnavailableError):
    """The store was closed before it began the operation."""

    def __init__(self, message: str = "the ledger store was closed") -> None:
        super().__init__(message)


class LedgerStoreFullError(LedgerStoreUnavailableError):
    """No space is left; nothing was stored. The caller may retry the same append later, under the same entry id."""


class LedgerWriteError(LedgerStoreUnavailableError):
    """The disk failed during the write. The entry was not acknowledged, and it is not known whether it is stored.

    Fence the ledger before anything else. Its last entry id then says for good which entries it has.
    """

    happened = "unknown"


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code of a command that `error` ends; FAILED for an error that is not ours."""
    match error:
        case OperationError():
            return error.code
        case UncertainStateError() | UncertainAnswerError():
            return ExitCode.OUTCOME_UNKNOWN
        case MetadataForbiddenError() | HubNotTrustedError() | NotAuthenticatedError():
            return ExitCode.FAILED  # UNAVAILABLE would mean that a retry may help, and it does not.
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
