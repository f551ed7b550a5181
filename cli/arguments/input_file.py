"""Files that commands read, given as arguments or options."""

import errno
import os
from pathlib import Path
from typing import Any

import click

from hedwig.errors import OperationError
from hedwig.operations.errors import remedy

__all__ = ["InputFile"]


class InputFile(click.Path):
    """A file to read. If it does not exist, the command line is wrong; if it cannot be read, the command fails.

    Raises: OperationError - it may not be read.
    """

    def __init__(self, *, allow_dash: bool = False, path_type: type[Path] | None = None) -> None:
        super().__init__(exists=True, dir_okay=False, readable=False, allow_dash=allow_dash, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value != "-" or not self.allow_dash:
            _check_readable(value, ctx)
        return super().convert(value, param, ctx)


def _check_readable(value: "str | os.PathLike[str]", ctx: click.Context | None) -> None:
    try:
        # Click takes a file in a directory that may not be searched for absent. Opening a pipe would wait.
        os.stat(value)  # noqa: PTH116 - of an empty name, Path makes the working directory.
        error = None if os.access(value, os.R_OK) else PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except PermissionError as exc:
        error = exc
    except (OSError, ValueError):
        return  # Click reports all other errors.
    if error is not None:
        command = "" if ctx is None else f"{ctx.command_path.partition(' ')[2]} "
        said = f"{command}failed on the file {os.fspath(value)}: {error.strerror}; {remedy(error)}, or name another"
        raise OperationError(said) from error
