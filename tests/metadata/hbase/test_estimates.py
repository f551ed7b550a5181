"""The number of records of a large table is told from samples: about right, and never passed off as exact."""

from hedwig.metadata import Estimate, MetadataStore, RecordKey, StoreOptions, Write
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.hbase.backend import HBaseBackend
from hedwig.metadata.hbase.row_codec import RowCodec
from hedwig.metadata.hbase.table_scan import TableScan
from hedwig.metadata.testing import samples
from hedwig.model import LedgerRanges, SubscriberId, Topic
from hedwig.versions import NEW
from tests.metadata.hbase.conftest import Namespace


def _topics(store: MetadataStore, namespace: Namespace) -> TableScan[LedgerRanges]:
    backend = store._backend  # to choose the number of samples
    assert isinstance(backend, HBaseBackend)
    return TableScan(RowCodec(PERSISTENCE), f"{namespace.name}:persistence", backend._driver, StoreOptions())


async def test_many_topics_are_counted_from_samples(hbase_store: MetadataStore, namespace: Namespace) -> None:
    number = 12_000
    writes = [Write(RecordKey(Topic(b"many-%d" % each)), LedgerRanges(), NEW) for each in range(number)]
    for start in range(0, number, 3_000):
        for outcome in await hbase_store.persistence.apply(writes[start : start + 3_000]):
            outcome.written()
    estimate = await _topics(hbase_store, namespace).estimate(4)
    assert not estimate.is_exact
    assert abs(estimate.number - number) < number // 10
    # With so many samples they join up, and the whole table is read.
    assert (await hbase_store.estimate())["persistence"] == Estimate(number, is_exact=True)


async def test_number_is_not_called_exact_if_a_topic_was_not_read_to_its_end(
    hbase_store: MetadataStore, namespace: Namespace
) -> None:
    wide = [
        Write(RecordKey(Topic(b"wide"), SubscriberId(b"%d" % each)), samples.subscription(1), NEW)
        for each in range(2_500)
    ]
    for outcome in await hbase_store.subscriptions.apply(wide):
        outcome.written()
    assert not (await hbase_store.estimate())["subscriptions"].is_exact
    assert (await hbase_store.count())["subscriptions"] == 2_500
