"""A store on SQLite, whose records are those of any other."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.metadata import MetadataStore, format_metadata, open_metadata


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as opened:
        yield opened
