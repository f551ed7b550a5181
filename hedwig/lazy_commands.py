"""Commands that are loaded on first use, so that a shell that completes one does not wait for all."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click

from hedwig.extras import needed

__all__ = ["LazyCommands"]


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name. `modules` names the module of each, or `module:attribute` if the attribute has another name.

    `extra` is the extra that must be installed for them.
    """

    def __init__(self, modules: Mapping[str, str], extra: str) -> None:
        self._extra = extra
        self._modules = dict(modules)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._modules[name].partition(":")
            with needed(self._extra, "this command needs"):
                self._loaded[name] = getattr(import_module(module), attribute or name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._modules[name] = command.callback.__module__ if command.callback else ""
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules
