"""The order of the owners of a topic: what a former owner acknowledges, a later one must have found.

The clients cannot check that alone. A message of a former owner that the later one has not found is delivered at last,
once the later one is refused a write, and looks again.

A hub that is declared dead between its claim and the opening of the log may open it behind the later owner, and shut
that one out. Only its lease prevents that, which hubs of the simulation do not have. So no rule holds between these.
Nor does one hold for what it finds there: the ranges may be those that an importer has taken out. If the later owner
releases the topic in order, the next one has nobody to shut out. So no rule holds between that one and the hub that was
declared dead either, until an owner has changed the ranges as it opened the log.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log import TopicLog
from hedwig.hub.topics.ownership import Claim
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.hub.topics.topics import Topics
from hedwig.metadata.records.stamps import Stamp
from hedwig.model import Topic
from hedwig.versions import Version
from tests.simulation.history import History

__all__ = ["Owners", "ordered_owners"]

_TAG_BYTES: Final = 1
"""A version of SQLite is a stamp behind a tag."""
_RULE: Final = "a later owner finds what former ones acknowledge"


class Owners:
    """The owners of each topic, each with the number of its owner record, which grows from one to the next."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._logs: dict[int, tuple[DurableLog, int]] = {}
        """The logs that were opened, by their identities, with the numbers of their owners."""
        self._found: dict[Topic, dict[int, int]] = defaultdict(dict)
        """The last message that each owner has found."""
        self._stored: dict[Topic, dict[int, int]] = defaultdict(dict)
        """The last message that each owner has acknowledged."""
        self._opening: dict[Topic, set[int]] = defaultdict(set)
        """The owners that are opening the log."""
        self._beside: dict[Topic, dict[int, set[int]]] = defaultdict(dict)
        """For each owner the former ones that open the log behind it."""
        self._behind: dict[Topic, set[int]] = defaultdict(set)
        """Those that have opened the log behind a later owner, and were not shut out since."""

    @contextmanager
    def opening(self, topic: Topic, owner: int) -> Iterator[None]:
        """Note that an owner is opening the log, until the block ends."""
        self._opening[topic].add(owner)
        try:
            yield
        finally:
            self._opening[topic].discard(owner)

    def has_others_beside(self, topic: OwnedTopic) -> bool:
        """Say whether a former owner may have opened the log behind this one."""
        return bool(self._beside[topic.name].get(_number(topic.owner_version)))

    def opened(self, log: DurableLog, owner: int) -> None:
        self._logs[id(log)] = log, owner
        if overtaken := [later for later in self._found[log.topic] if owner < later]:
            # It may not even have begun when they opened it: the answer to its claim came so late.
            for later in overtaken:
                self._beside[log.topic][later].add(owner)
            self._behind[log.topic].add(owner)
            return
        self._found[log.topic][owner] = log.last_id
        if not log._record.is_as_found:
            self._behind[log.topic].clear()  # It has changed the record, so they cannot.
        others = self._opening[log.topic] | self._behind[log.topic]
        self._beside[log.topic][owner] = {each for each in others if each < owner}
        for former, last_id in self._stored[log.topic].items():
            if former < owner and log.last_id < last_id:
                self._break(log.topic, owner, log.last_id, last_id)

    def stored(self, log: DurableLog) -> None:
        if id(log) not in self._logs:
            return  # It is being opened, and the rule is checked then.
        _, owner = self._logs[id(log)]
        self._stored[log.topic][owner] = log.last_id
        for later, found in self._found[log.topic].items():
            if owner < later and found < log.last_id and owner not in self._beside[log.topic][later]:
                self._break(log.topic, later, found, log.last_id)

    def _break(self, topic: Topic, owner: int, found: int, last_id: int) -> None:
        self._history.broken(_RULE, f"owner {owner} of {topic!r} found {found}, and a former one has {last_id}")


@contextmanager
def ordered_owners(history: History) -> Iterator[Owners]:
    """Check the rule until the block ends."""
    owners = Owners(history)
    open_log, open_batch, on_stored = Topics._open_log, Topics._open_batch, DurableLog.on_stored

    async def open_and_note(self: Topics, name: Topic, claim: Claim) -> TopicLog:
        owner = _number(claim.version)
        with owners.opening(name, owner):
            log = await open_log(self, name, claim)
            if isinstance(log, DurableLog):
                owners.opened(log, owner)
        return log

    async def open_all_and_note(
        self: Topics, claims: Mapping[Topic, Claim], served: dict[Topic, OwnedTopic]
    ) -> Sequence[Exception]:
        numbers = {name: _number(claim.version) for name, claim in claims.items()}
        with ExitStack() as stack:
            for name, owner in numbers.items():
                stack.enter_context(owners.opening(name, owner))
            try:
                return await open_batch(self, claims, served)
            finally:
                for name, topic in served.items():
                    if isinstance(topic.log, DurableLog):
                        owners.opened(topic.log, numbers[name])

    def store_and_note(self: DurableLog, stored: bytes) -> None:
        on_stored(self, stored)
        owners.stored(self)

    with (
        patch.object(Topics, "_open_log", open_and_note),
        patch.object(Topics, "_open_batch", open_all_and_note),
        patch.object(DurableLog, "on_stored", store_and_note),
    ):
        yield owners


def _number(version: Version) -> int:
    return Stamp.decode(version.raw[_TAG_BYTES:]).number
