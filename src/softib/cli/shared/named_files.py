"""Types of options and arguments that name files and folders. They are checked when the command line is parsed, so that
a misspelt path is reported before any work is done.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import click

from softib.errors import InputError, UnreadableFile

__all__ = ["InputFile", "InputFolder", "OutputFile", "OutputFolder"]


class InputFile(click.Path):
    """A file that is read; ``-`` is standard input. ``made_by``: the command that writes such a
    file."""

    def __init__(self, made_by: str = "") -> None:
        super().__init__()
        self.made_by = made_by

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return ``value``. Raises :class:`UnreadableFile`."""
        if value != "-":
            _check_readable(value, f"; '{self.made_by} {value}' makes it" if self.made_by else "")
        return value


class InputFolder(click.Path):
    """A folder that is read."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return ``value``. Raises :class:`UnreadableFile`."""
        _check_readable(value)
        if not Path(value).is_dir():
            raise UnreadableFile(f"{value}: {os.strerror(errno.ENOTDIR)}")
        return value


class OutputFile(click.Path):
    """A file that is written. Its folder must exist, because a missing folder suggests a misspelt path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return ``value``. Raises :class:`InputError`."""
        path = Path(value)
        if path.is_dir():
            raise InputError(f"{path}: this is a directory; use the name of a file")
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe
            _check_writable(path, path)
            return value
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; create it, or use another")
        _check_writable(path, path.parent)
        return value


class OutputFolder(click.Path):
    """A folder for output files; it is created if missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return ``value``. Raises :class:`InputError`."""
        path = Path(value).absolute()
        above = next(p for p in (path, *path.parents) if p.exists())
        if not above.is_dir():
            raise InputError(f"{value}: cannot write there: {above}: {os.strerror(errno.ENOTDIR)}")
        _check_writable(Path(value), above)
        return value


def _check_readable(path: str, hint: str = "") -> None:
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path}: {getattr(error, 'strerror', None) or error}{hint}") from None
    if not os.access(path, os.R_OK):
        raise UnreadableFile(f"{path}: {os.strerror(errno.EACCES)}")


def _check_writable(path: Path, where: Path) -> None:
    """Raise :class:`InputError` about ``path`` if ``where`` cannot be written."""
    if not os.access(where, os.W_OK):
        raise InputError(f"{path}: cannot write there: {os.strerror(errno.EACCES)}")
