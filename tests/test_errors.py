"""Prove that the tree at the top of `hedwig.errors` has every error of every room, each below its parent."""

import importlib
import pkgutil
from collections.abc import Iterator

import hedwig
from hedwig import errors


def test_the_tree_has_every_error_below_its_parent() -> None:
    for module in pkgutil.walk_packages(hedwig.__path__, "hedwig."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    shown = dict(_shown())
    raised = {error.__name__: error.__bases__[0].__name__ for error in _below(errors.HedwigError)}
    assert len(raised) > 60
    for name, parent in raised.items():
        assert shown.get(name) == parent, name
    assert shown.keys() == raised.keys()


def _below(error: type[Exception]) -> Iterator[type[Exception]]:
    for each in error.__subclasses__():
        if each.__module__.startswith("hedwig.") and not each.__name__.startswith("_"):
            yield each
            yield from _below(each)


def _shown() -> Iterator[tuple[str, str]]:
    """Iterate over the errors of the tree, each with the one that it is below."""
    assert errors.__doc__ is not None
    above = ["HedwigError"]
    for line in errors.__doc__.splitlines():
        branch, _, text = line.partition("── ")
        name = text.partition(" ")[0]
        if name.endswith("Error"):
            depth = len(branch) // 4
            above[depth:] = [name]
            yield name, above[depth - 1]
