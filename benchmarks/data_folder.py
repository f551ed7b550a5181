"""The folder in which a run keeps what its servers store, for as long as it lasts."""

import tempfile
from pathlib import Path

import click

__all__ = ["data_folder"]


def data_folder(data: Path | None) -> "tempfile.TemporaryDirectory[str]":
    """Return a new folder in `data`, which is made, or in the system's one. Raises ClickException: it cannot be."""
    try:
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="hedwig-bench-", dir=data, ignore_cleanup_errors=True)
    except OSError as exc:
        place = tempfile.gettempdir() if data is None else data
        raise click.ClickException(
            f"no data can be kept in {place}: {exc.strerror or exc}; name a folder that can be written to with --data"
        ) from exc
