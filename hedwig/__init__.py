"""Topic publish/subscribe with guaranteed delivery.

This package exports the names that most programs need. `HedwigClient` and `BlockingClient` publish and subscribe,
`open_metadata` opens a store of metadata, and `errors` has all errors. Each is imported on first use, so a client loads
no store.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hedwig import errors
    from hedwig.client import BlockingClient, HedwigClient, Message
    from hedwig.metadata import open_metadata
    from hedwig.versions import NEW

    __version__: str

__all__ = ["NEW", "BlockingClient", "HedwigClient", "Message", "__version__", "errors", "open_metadata"]

_HOMES: Final = {
    "BlockingClient": "hedwig.client",
    "HedwigClient": "hedwig.client",
    "Message": "hedwig.client",
    "NEW": "hedwig.versions",
    "open_metadata": "hedwig.metadata",
}

if not TYPE_CHECKING:  # Otherwise type checkers would accept any name.

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name == "errors":
            return importlib.import_module("hedwig.errors")
        if name == "__version__":
            # Few programs ask for it, and the import takes 10 ms.
            from importlib import metadata

            return metadata.version("hedwig-pubsub")
        raise AttributeError(f"module 'hedwig' has no attribute {name!r}")
