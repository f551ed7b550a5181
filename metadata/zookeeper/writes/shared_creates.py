"""Records that are created together: one transaction for many, if ZooKeeper refuses none of them.

A transaction costs ZooKeeper, and a client, several times what one more change in it does. So creates of the same
moment first try one transaction together. ZooKeeper applies it as a whole or not at all, and reports which change it
refused. A create whose node exists leaves the company, and goes on alone. If the transaction is refused again and
again, all go on alone, as if there had been no company. A lost answer loses the first attempt of every create. Each
then checks its own record by the rules in cas.py, since the transaction holds for it what it would have sent alone.

Records under the same parent share one mark on it, the token of the last one. If the create of another one is in doubt
and finds no record, that mark looks like another writer's. Then the create reports that it does not know, where a mark
of its own would tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from kazoo.exceptions import NodeExistsError, NoNodeError, RolledBackError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.metadata.zookeeper.transactions import create_all
from hedwig.metadata.zookeeper.writes.cas import CreateCas
from hedwig.metadata.zookeeper.writes.parents import ParentForecast
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge

__all__ = ["SharedCreates"]

R = TypeVar("R")

_NODES_MAX: Final = 64
_BYTES_MAX: Final = 128 << 10
"""The most bytes of paths and contents in one transaction: an eighth of ZooKeeper's limit, since other sessions wait
for it."""

_TRIES: Final = 3


class SharedCreates(Generic[R]):
    """Sends creates of one table together."""

    def __init__(self, bridge: Bridge, forecast: ParentForecast) -> None:
        self._bridge = bridge
        self._forecast = forecast

    @staticmethod
    def companies(creates: Sequence[CreateCas[R]]) -> Iterator[range]:
        """Yield ranges of indexes into `creates`; one transaction may hold the creates of one range."""
        first = size = 0
        for index, each in enumerate(creates):
            node = each.node
            # The transaction also holds the parent's path, with its mark.
            more = len(node.path) + len(node.parent) + len(node.stored)
            if index > first and (size + more > _BYTES_MAX or index - first == _NODES_MAX):
                yield range(first, index)
                first, size = index, 0
            size += more
        if creates:
            yield range(first, len(creates))

    async def carry_out(self, company: Sequence[CreateCas[R]], deadline: Deadline) -> None:
        """Create together what ZooKeeper does not refuse, and mark it as done. The caller then runs the others."""
        attempt = _Attempt(company, self._forecast.is_missing)
        for _ in range(_TRIES):
            if len(attempt.company) < 2:
                return
            try:
                (results,) = await self._bridge.send(deadline, attempt.request())
            except (AbortedError, OutcomeUnknownError) as exc:
                if not isinstance(exc, AbortedError) or exc.sent:
                    for each in attempt.company:
                        each.note_shared_loss(exc)
                return
            except NotAppliedError:
                return  # Nothing was applied; alone, each create reports the cause.
            if attempt.settle(results):
                self._forecast.is_missing = bool(attempt.made)
                return


@dataclass(slots=True)
class _Attempt(Generic[R]):
    """The transaction to send next for a company. `made` are the parents that it creates, `there` those that exist."""

    company: Sequence[CreateCas[R]]
    makes_parents: bool
    made: list[str] = field(default_factory=list)
    there: set[str] = field(default_factory=set)

    def request(self) -> Any:
        parents = {each.node.parent: each.node.token for each in self.company}
        self.made = [parent for parent in parents if parent not in self.there] if self.makes_parents else []
        nodes = [
            *((parent, b"") for parent in self.made),
            *((each.node.path, each.node.stored) for each in self.company),
        ]
        return create_all(nodes, parents)

    def settle(self, results: Any) -> bool:
        """Say whether it was applied. If not, change it to avoid this refusal, or empty the company to give up."""
        if isinstance(results, ZookeeperError):
            self.company = ()
            return False
        refused = next((index for index, each in enumerate(results) if _stood_in_the_way(each)), None)
        if refused is None:
            stats = results[len(self.made) + len(self.company) :]
            parents = dict.fromkeys(each.node.parent for each in self.company)
            guards = dict(zip(parents, stats, strict=True))
            for each in self.company:
                stat = guards[each.node.parent]
                # All changes of a transaction share one zxid, so the node's czxid is that of the change to its parent.
                each.note_shared(stat.mzxid, stat.version)
            return True
        error, position = results[refused], refused - len(self.made)
        if isinstance(error, NodeExistsError) and position < 0:
            self.there.add(self.made[refused])
        elif isinstance(error, NodeExistsError) and position < len(self.company):
            self.company = [*self.company[:position], *self.company[position + 1 :]]
        elif isinstance(error, NoNodeError) and position >= 0 and not self.makes_parents:
            self.makes_parents = True
        else:
            self.company = ()
        return False


def _stood_in_the_way(result: Any) -> bool:
    return isinstance(result, ZookeeperError) and not isinstance(result, RolledBackError)
