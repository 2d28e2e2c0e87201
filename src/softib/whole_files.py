"""Output files, which are written completely or not at all. Everything that a user names as an output is written by
these functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softib.errors import InputError, os_reason

__all__ = ["write_file", "write_text"]


def write_file(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> None:
    """Call ``write`` with a file beside ``path``, which replaces ``path`` when it is complete; if the disk is full, the
    previous file stays.

    A path that is not a regular file (``/dev/stdout``, a pipe) is written directly. Raises
    :class:`InputError`, one line, if it cannot be written.
    """
    target = Path(path)
    straight = target.exists() and not target.is_file()
    part = target if straight else target.resolve().with_name(f".{target.name}.{os.getpid()}")
    try:
        write(part)
        if not straight:
            part.replace(target.resolve())
    except OSError as error:
        raise InputError(f"{target}: cannot write: {os_reason(error)}") from None
    except Exception as error:  # polars has a separate exception for a full disk
        if not _is_of_disk(error):
            raise
        raise InputError(f"{target}: cannot write: {error}") from None
    finally:
        if not straight:
            part.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` in UTF-8 with :func:`write_file`; its line ends stay unchanged."""
    write_file(path, lambda part: part.write_bytes(text.encode()))


def _is_of_disk(error: Exception) -> bool:
    """Return whether this is an exception of polars for an error of the system."""
    return type(error).__module__.startswith("polars") and "os error" in str(error)
