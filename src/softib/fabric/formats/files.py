"""The bytes of a file for every reader: a regular file, standard input (``-``), a FIFO, or any of them compressed.

Dumps come compressed from where they are kept. gzip, bzip2 and xz are unpacked by their magic numbers, never by the suffix;
zstd is named, since Python 3.11 cannot unpack it. A compressed file that is cut or damaged gives what stands before the
damage, and says so (:attr:`Content.flaw`).

Standard input and FIFOs can be read only once, but format detection and the reader both need their bytes: they are kept in
memory until :func:`release`.
"""

from __future__ import annotations

import bz2
import lzma
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from softib.errors import UnreadableFile

__all__ = [
    "FILE_LIMIT",
    "STDIN",
    "Content",
    "content",
    "head",
    "is_stdin",
    "release",
    "shown_name",
    "small_content",
    "stem",
    "uncompressed_name",
]

STDIN = "-"
FILE_LIMIT = 1 << 30
"""Largest file in octets, packed and unpacked: a dump of 50,000 hosts has about 40 MB."""
CHUNK = 1 << 20
XZ_MEMORY = 256 << 20
"""What unpacking xz may take; ``xz -9`` needs 65 MiB."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_SUFFIXES = (".gz", ".bz2", ".xz")
"""Of compressed files: a name without it tells the format's own suffix."""


@dataclass(frozen=True)
class Content:
    """What a file holds, unpacked; ``flaw`` is why the rest of a compressed stream cannot be read, else empty."""

    data: bytes
    flaw: str = ""


_Unpacker = Any
"""An object with ``decompress(data, max_length)``, ``eof`` and ``unused_data``."""


class _Inflate:
    """One member of a gzip file, in the form that bz2 and lzma have."""

    def __init__(self) -> None:
        self.stream = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, most: int) -> bytes:
        return self.stream.decompress(self.stream.unconsumed_tail + data, most)

    @property
    def needs_input(self) -> bool:
        return not self.stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self.stream.eof

    @property
    def unused_data(self) -> bytes:
        return self.stream.unused_data


_PACKED: tuple[tuple[bytes, str, Callable[[], _Unpacker]], ...] = (
    (b"\x1f\x8b\x08", "gzip", _Inflate),
    (b"BZh", "bzip2", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\0", "xz", lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY)),
)

_streams: dict[str, tuple[Any, bytes]] = {}
"""Bytes of standard input and FIFOs by path, with what identifies the stream (another one may come under the same path)."""


def is_stdin(path: str | Path) -> bool:
    """True for ``-``."""
    return str(path) == STDIN


def shown_name(path: str | Path) -> str:
    """How messages and results call the file: ``stdin`` for ``-``."""
    return "stdin" if is_stdin(path) else str(path)


def release(path: str | Path) -> None:
    """Give back the memory of a stream that was read. Standard input is at its end then; a FIFO waits for another writer."""
    _streams.pop(str(path), None)


def stem(path: str | Path) -> str:
    """Name of a file without its suffix, nor that of its compression; ``stdin`` for standard input."""
    return "stdin" if is_stdin(path) else uncompressed_name(path).stem


def uncompressed_name(path: str | Path) -> Path:
    """The path without the suffix of a compression: ``pod.yaml`` of ``pod.yaml.gz``."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path


def head(path: str | Path, most: int) -> bytes:
    """The first ``most`` octets, unpacked. Raises :class:`UnreadableFile` with the system's reason."""
    return small_content(path, most).data


def content(path: str | Path) -> Content:
    """All of it, unpacked.

    Raises :class:`UnreadableFile`: the system gives no bytes, it is no regular file, larger than :data:`FILE_LIMIT`, or
    compressed in a way that cannot be unpacked from its first octet on.
    """
    path = Path(path)
    got = small_content(path, FILE_LIMIT + 1)
    if len(got.data) > FILE_LIMIT:
        raise UnreadableFile(f"{shown_name(path)}: more than {FILE_LIMIT >> 20} MiB; a fabric file has at most that")
    return got


def small_content(path: str | Path, most: int) -> Content:
    """At most ``most`` bytes of it, unpacked; ``flaw`` only where the damage comes before. Raises as :func:`content`."""
    path = Path(path)
    name = shown_name(path)
    if is_stdin(path):
        return _unpacked(name, iter([_standard_input()]), most)
    try:
        found = path.stat()
        if stat.S_ISFIFO(found.st_mode):
            return _unpacked(name, iter([_fifo(path, (found.st_dev, found.st_ino))]), most)
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableFile(f"{path}: not a regular file; save the text in one first, or pipe it in and name it -")
        with path.open("rb") as file:
            return _unpacked(name, _chunks(file), most)
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from None


def _standard_input() -> bytes:
    kept = _streams.get(STDIN)
    if kept is None or kept[0] is not sys.stdin:
        try:
            kept = _streams[STDIN] = (sys.stdin, sys.stdin.buffer.read(FILE_LIMIT + 1))
        except (AttributeError, OSError, ValueError) as error:
            raise UnreadableFile(f"{shown_name(STDIN)}: standard input cannot be read: {error}") from None
    return kept[1]


def _fifo(path: Path, identity: tuple[int, int]) -> bytes:
    kept = _streams.get(str(path))
    if kept is None or kept[0] != identity:
        with path.open("rb") as file:
            kept = _streams[str(path)] = (identity, file.read(FILE_LIMIT + 1))
    return kept[1]


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _unpacked(name: str, chunks: Iterator[bytes], most: int) -> Content:
    first = next(chunks, b"")
    if first.startswith(_ZSTD):
        raise UnreadableFile(
            f"{name}: compressed with zstd, which softib does not unpack; use zstd -dc FILE | softib … -"
        )
    for magic, method, make in _PACKED:
        if first.startswith(magic):
            data, flaw = _unpack(first, chunks, make, magic, most)
            if flaw and not data:
                raise UnreadableFile(f"{name}: {method} data that cannot be unpacked: {flaw}")
            return Content(data, flaw and f"the {method} data cannot be unpacked from here on: {flaw}")
    parts, size = [first], len(first)
    while size < most and (chunk := next(chunks, b"")):
        parts.append(chunk)
        size += len(chunk)
    return Content(b"".join(parts)[:most])


def _unpack(
    chunk: bytes, chunks: Iterator[bytes], make: Callable[[], _Unpacker], magic: bytes, most: int
) -> tuple[bytes, str]:
    """At most ``most`` octets, and what is wrong with the stream. Several members are one file, as gzip(1) has it."""
    parts: list[bytes] = []
    size = 0
    unpacker = make()
    try:
        while size < most:
            part = unpacker.decompress(chunk, most - size)
            parts.append(part)
            size += len(part)
            chunk = b""
            if unpacker.eof:
                rest = unpacker.unused_data or next(chunks, b"")
                if not rest.strip(b"\0"):
                    break  # padding, as tapes have it
                if not rest.startswith(magic[: len(rest)]):
                    return b"".join(parts), "something else follows it"
                unpacker, chunk = make(), rest
            elif unpacker.needs_input and not (chunk := next(chunks, b"")):
                return b"".join(parts), "it is cut"
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
        return b"".join(parts), " ".join(str(error).split())[:100] or type(error).__name__
    return b"".join(parts), ""
