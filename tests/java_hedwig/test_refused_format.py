"""Prove that the original hub refuses metadata in which there may be shared logs, until there are none."""

import pytest

from hedwig.cli.dev import DevError
from hedwig.metadata import MetadataStore
from hedwig.metadata.contract.layout import SHARED_LOGS_MAJOR
from hedwig.metadata.logs.format import lower_format, raise_format
from tests.java_hedwig.support.stack import JavaStack

__all__: list[str] = []


async def test_hub_refuses_metadata_with_shared_logs(stack: JavaStack, shared: MetadataStore) -> None:
    stack.stop_hub()
    await raise_format(shared)
    try:
        with pytest.raises(DevError):
            stack.start_hub()
        refusal = f"Incompatible ZkMetadataManagerFactory version {SHARED_LOGS_MAJOR} found, expected version 1"
        assert refusal in stack.hub_log()
    finally:
        assert await lower_format(shared)
        stack.start_hub()
    with stack.client() as client:
        client.publish(b"after-the-format", b"one")
