"""SOURCE that is no plain file: standard input (``-``), a pipe (``<(ssh host ibnetdiscover)``) and gzip. A plain copy is read, and errors name the original."""

from __future__ import annotations

import contextlib
import gzip
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from softib.errors import SoftibError, UnreadableFile

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult

__all__ = ["STDIN", "is_packed", "named_again", "plain_copy"]

STDIN = "-"
MAGIC = b"\x1f\x8b"
"""Of gzip (RFC 1952)."""
MAX_BYTES = 4 << 30
"""What a copy may hold: a file of ibdiagnet of the largest fabrics is below 1 GiB, a bomb of gzip is not."""
CHUNK = 1 << 20


class Readable(Protocol):
    """What octets are read from."""

    def read(self, size: int, /) -> bytes: ...


def is_packed(path: Path) -> bool:
    """Does the file begin as gzip does?"""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(2) == MAGIC
    return False


@contextlib.contextmanager
def plain_copy(source: str) -> Iterator[Path]:
    """The path of a plain copy of stdin (``-``), of a pipe or of a gzip file as long as the block lasts; gzip that comes
    through stdin or a pipe is unpacked too.

    Raises :class:`UnreadableFile` for broken or endless gzip. What the block raises names ``source`` instead of the copy.
    """
    with tempfile.TemporaryDirectory(prefix="softib-") as folder:
        # A fabric.yaml is known by its suffix as well as by its content.
        copy = Path(folder) / (Path(source).stem if source != STDIN else "stdin")
        try:
            if source == STDIN:
                _copy(sys.stdin.buffer, copy, _shown(source))
            else:
                with open(source, "rb") as file:
                    _copy(file, copy, source)
            if is_packed(copy):
                _unpack(copy.rename(f"{copy}.gz"), copy, _shown(source))
            yield copy
        except SoftibError as error:
            if str(copy) not in str(error):
                raise
            told = str(error).replace(str(copy), _shown(source))
            raise (UnreadableFile if error.exit_code == 2 else SoftibError)(told) from None


def named_again(result: ReadResult, copy: Path, source: str) -> ReadResult:
    """``result`` of reading ``copy``, in whose problems ``source`` is named."""
    shown = _shown(source)
    result.problems[:] = [
        replace(p, file=p.file.replace(str(copy), shown), reason=p.reason.replace(str(copy), shown))
        for p in result.problems
    ]
    if result.fabric.source.path == str(copy):
        result.fabric.source.path = shown
    return result


def _shown(source: str) -> str:
    return "stdin" if source == STDIN else source


def _unpack(path: Path, copy: Path, shown: str) -> None:
    try:
        with gzip.open(path) as packed:
            _copy(packed, copy, shown)
    except (OSError, EOFError) as error:
        raise UnreadableFile(f"{shown}: broken gzip: {error}") from None


def _copy(file: Readable, copy: Path, shown: str) -> None:
    total = 0
    with copy.open("wb") as out:
        while part := file.read(CHUNK):
            total += len(part)
            if total > MAX_BYTES:
                raise UnreadableFile(f"{shown}: more than {MAX_BYTES >> 30} GiB")
            out.write(part)
