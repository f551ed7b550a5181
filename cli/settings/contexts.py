"""Saved contexts: named settings in a TOML file of the user. The file is always complete."""

import fcntl
import os
import re
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hedwig.cli.settings.configuration import SETTINGS, Value
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.extras import needed
from hedwig.operations.errors import remedy

__all__ = ["SavedContexts", "changing_contexts", "check_context_name", "contexts_path", "read_contexts"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOCK_WAIT_S: Final = 5.0
_LOCK_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class SavedContexts:
    """All contexts by name. `current` is in use unless the user names another; `previous` was in use before it."""

    contexts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    current: str | None = None
    previous: str | None = None

    def get(self, name: str) -> Mapping[str, Value]:
        """Return a context. Raises OperationError if there is none with that name."""
        if name not in self.contexts:
            known = f"there are {', '.join(sorted(self.contexts))}" if self.contexts else "none is saved"
            raise OperationError(
                f"there is no context {name!r} in {contexts_path()}: {known}; save it with: "
                "hedwig-admin config context save NAME",
                ExitCode.NOT_FOUND,
            )
        return self.contexts[name]

    def used(self, name: str | None) -> "SavedContexts":
        """Return the contexts with another one in use, None for none. Raises OperationError if it does not exist."""
        if name is not None:
            self.get(name)
        return self if name == self.current else replace(self, current=name, previous=self.current)

    def saved(self, name: str, values: Mapping[str, Value]) -> "SavedContexts":
        """Return the contexts with `values` as the context `name`."""
        return replace(self, contexts={**self.contexts, name: dict(values)})

    def without(self, name: str) -> "SavedContexts":
        """Return the contexts without `name`. If it was in use, none is in use afterwards."""
        kept = {other: values for other, values in self.contexts.items() if other != name}
        current, previous = (None if other == name else other for other in (self.current, self.previous))
        return SavedContexts(kept, current, previous)


def check_context_name(name: str) -> str:
    """Return `name`. Raises ValueError if a context cannot have this name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a context: up to 64 letters, digits, dots, dashes and underscores")
    return name


def contexts_path() -> Path:
    """Return the path of the user's contexts. The file may not exist."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # The XDG specification says to ignore relative paths.
    return (base if base.is_absolute() else Path.home() / ".config") / "hedwig" / "admin.toml"


def read_contexts() -> SavedContexts:
    """Return the saved contexts; none if there is no file. Raises OperationError if the file makes no sense."""
    path = contexts_path()
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return SavedContexts()
    except OSError as exc:
        code = ExitCode.FAILED if isinstance(exc, PermissionError) else ExitCode.USAGE
        raise OperationError(f"cannot read the saved contexts in {path}: {exc.strerror}; {remedy(exc)}", code) from exc
    except ValueError as exc:
        raise _broken(path, str(exc)) from exc
    return _parsed(path, content)


@contextmanager
def changing_contexts() -> Iterator["Draft"]:
    """Yield the saved contexts as a draft, and save the draft if it was changed. Others cannot change them meanwhile.

    Raises: OperationError - the file makes no sense, cannot be written, or another process holds it for too long.
    """
    # Follow a symbolic link, so that it stays one: some users keep such files elsewhere.
    path = Path(os.path.realpath(contexts_path()))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent):
            draft = Draft(read_contexts())
            before = draft.saved
            yield draft
            if draft.saved != before:
                _write(path, draft.saved)
    except OSError as exc:
        said = f"cannot write the saved contexts to {path}: {exc.strerror}; {remedy(exc)}"
        raise OperationError(f"{said}, or name another directory with XDG_CONFIG_HOME") from exc


@dataclass(slots=True)
class Draft:
    """The contexts that will be saved."""

    saved: SavedContexts


def _parsed(path: Path, content: Mapping[str, Any]) -> SavedContexts:
    for key in content:
        if key not in ("current", "previous", "contexts"):
            raise _broken(path, f"it has an unknown key {key!r}")
    tables = content.get("contexts", {})
    if not isinstance(tables, Mapping):
        raise _broken(path, "contexts is no table")
    contexts = {name: _context(path, name, values) for name, values in tables.items()}
    for key in ("current", "previous"):
        if key in content and not (isinstance(content[key], str) and content[key] in contexts):
            raise _broken(path, f"{key} is {content[key]!r}, which is no context in it")
    return SavedContexts(contexts, content.get("current"), content.get("previous"))


def _context(path: Path, name: str, values: Any) -> Mapping[str, Value]:
    if not isinstance(values, Mapping):
        raise _broken(path, f"contexts.{name} is no table")
    checked: dict[str, Value] = {}
    for key, value in values.items():
        if key not in SETTINGS:
            raise _broken(path, f"contexts.{name} has an unknown key {key!r}; there are {', '.join(SETTINGS)}")
        try:
            checked[key] = SETTINGS[key].check(value)
        except ValueError as exc:
            raise _broken(path, f"contexts.{name}.{key} is {value!r}: {exc}") from exc
    return checked


def _broken(path: Path, why: str) -> OperationError:
    return OperationError(
        f"the saved contexts in {path} cannot be used: {why}; correct the file, or remove it", ExitCode.USAGE
    )


def _write(path: Path, saved: SavedContexts) -> None:
    """Replace the file in one step by a new one that only its user can read."""
    with needed("cli", "contexts are saved with"):
        import tomli_w
    content: dict[str, Any] = {}
    for key, name in (("current", saved.current), ("previous", saved.previous)):
        if name is not None:
            content[key] = name
    content["contexts"] = {name: dict(saved.contexts[name]) for name in sorted(saved.contexts)}
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # Its mode is 0600.
    try:
        with os.fdopen(descriptor, "wb") as file:
            tomli_w.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of `directory`. Raises OperationError if another process holds it for too long."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    end = time.monotonic() + _LOCK_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise OperationError(
                        f"another process has been changing the saved contexts in {directory} for {_LOCK_WAIT_S:g} s; "
                        "try again"
                    ) from None
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)  # This also releases the lock.
