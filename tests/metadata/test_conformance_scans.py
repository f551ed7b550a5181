"""Prove that listings are complete and in order, page by page, in bounded memory, also while topics come and go."""

import pytest

from hedwig.metadata import StoreOptions
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from hedwig.metadata.testing.suite.scans import *  # noqa: F403
from hedwig.metadata.testing.suite.scans import scan_one_large_topic

THROUGH_THE_GATEWAY = (
    "test_topics_are_listed_exactly",
    "test_pages_join_without_a_gap",
    "test_large_records_are_scanned",
)


@pytest.mark.full
@pytest.mark.timeout(1200)
async def test_topic_with_a_hundred_thousand_subscriptions_is_scanned_in_bounded_memory(
    clients: Clients, empty_subject: Subject
) -> None:
    store = await clients.open(empty_subject, StoreOptions(page_rows=200))
    await scan_one_large_topic(store, 100_000, 10_000)
