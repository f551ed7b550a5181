"""Which stores tasks can share: each opens the store for itself, on whatever machine it runs."""

from hedwig.errors import ConfigurationError
from metadata import MetadataUrl

__all__ = ["check_shared"]


def check_shared(url: str) -> None:
    """Raise ConfigurationError if `url` is no URL, or is that of a store which lives in one process only."""
    parsed = MetadataUrl.parse(url)
    if parsed.scheme == "sqlite" and parsed.path in ("", "/"):
        raise ConfigurationError(
            f"{url!r} is a store in memory, of which every task would have its own; write sqlite:///path/to/file"
        )
