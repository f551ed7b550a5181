"""Prove that the bulk scan meets every record exactly once, in key order, in bounded memory, and that it resumes."""

import pytest

from hedwig.metadata import StoreOptions
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from hedwig.metadata.testing.suite.bulk_scan import *  # noqa: F403
from hedwig.metadata.testing.suite.bulk_scan import scan_beside_a_large_topic

THROUGH_THE_GATEWAY = ("test_every_record_is_met_once", "test_record_that_cannot_be_read_does_not_end_the_scan")


@pytest.mark.full
@pytest.mark.timeout(1200)
async def test_topic_with_a_hundred_thousand_subscriptions_is_scanned_in_bounded_memory(
    clients: Clients, empty_subject: Subject
) -> None:
    store = await clients.open(empty_subject, StoreOptions(page_rows=200))
    await scan_beside_a_large_topic(store, 100_000, 2_000)
