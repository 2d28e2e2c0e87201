"""Reading of files that a user names: a regular file, standard input (``-``), a FIFO, or any of them compressed, up to
a limit.

Every such file is read with these functions, so no file takes more memory than its limit, whatever its content. A test
refuses any other code that opens one. (:mod:`softib.whole_files` is the counterpart for output.)

Dumps are often stored compressed. gzip, bzip2 and xz are recognised by their magic numbers, never by the suffix, and
unpacked; zstd is only recognised, since Python 3.11 cannot unpack it. If a compressed file is cut or damaged, the part
before the damage is returned, and the damage is reported (:attr:`Content.flaw`).

Standard input and FIFOs can be read only once, but format detection and the reader both need their
bytes: they are kept in memory until :func:`release`.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from softib.errors import UnreadableFile, os_reason
from softib.plain_values import load_json

__all__ = [
    "FILE_LIMIT",
    "STDIN",
    "Content",
    "chunks",
    "content",
    "head",
    "is_stdin",
    "json_document",
    "nul_in",
    "raw_pieces",
    "read_text",
    "release",
    "shown_name",
    "small_content",
    "stem",
    "uncompressed_name",
]

STDIN = "-"
FILE_LIMIT = 1 << 30
"""Largest file in bytes, packed and unpacked: a dump of 50,000 hosts has about 40 MB."""
TEXT_LIMIT = 16 << 20
"""Largest file of settings, GUIDs, hosts or names in bytes."""
PACKED_FLOOR = 64 << 20
PACKED_RATIO = 100
"""A compressed file may unpack to ``PACKED_FLOOR`` bytes, or to ``PACKED_RATIO`` times its size if that is more.
Real dumps compress 10 to 40 times with gzip, at most 120 times with xz; a gzip
bomb 1,030 times."""
CHUNK = 1 << 20
XZ_MEMORY = 256 << 20
"""Memory that unpacking xz may take; ``xz -9`` needs 65 MiB."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_SUFFIXES = (".gz", ".bz2", ".xz")
"""Suffixes of compressed files; the name without them has the suffix of the format."""


@dataclass(frozen=True)
class Content:
    """The content of a file, unpacked; ``flaw``: the reason why the rest of a compressed stream cannot be read,
    else empty."""

    data: bytes
    flaw: str = ""


_Unpacker = Any
"""An object with ``decompress(data, max_length)``, ``eof`` and ``unused_data``."""


class _Inflate:
    """A member of a gzip file, in the form of bz2 and lzma."""

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
"""Bytes of standard input and FIFOs by path, with the identity of the stream (another one may appear under the same
path)."""


def is_stdin(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is ``-``."""
    return str(path) == STDIN


def shown_name(path: str | os.PathLike[str]) -> str:
    """Return the name of the file in messages and results: ``stdin`` for ``-``."""
    return "stdin" if is_stdin(path) else str(path)


def release(path: str | os.PathLike[str]) -> None:
    """Release the memory of a stream that was read. Standard input is then at its end; a FIFO waits for another
    writer."""
    _streams.pop(str(path), None)


def stem(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its suffix and that of its compression; ``stdin`` for standard input."""
    return "stdin" if is_stdin(path) else uncompressed_name(path).stem


def uncompressed_name(path: str | os.PathLike[str]) -> Path:
    """Return the path without the suffix of a compression: ``pod.yaml`` for ``pod.yaml.gz``."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path


def head(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the first ``most`` bytes, unpacked. Raises :class:`UnreadableFile` with the system's
    reason."""
    return small_content(path, most).data


def content(path: str | os.PathLike[str], most: int | None = None, kind: str = "fabric file") -> Content:
    """Return the whole content, unpacked. ``kind``: its expected kind; ``most``: the maximum size of such a file in
    bytes (default :data:`FILE_LIMIT`).

    Raises :class:`UnreadableFile` if the system returns no bytes, it is not a regular file, it is larger than ``most``,
    or it is compressed and cannot be unpacked from its first byte on.
    """
    most = FILE_LIMIT if most is None else most
    got = small_content(path, most + 1)
    if len(got.data) > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise UnreadableFile(f"{shown_name(path)}: more than {size}, the maximum of a {kind}")
    return got


def chunks(path: str | os.PathLike[str], problems: list[str] | None = None) -> Iterator[bytes]:
    """Yield pieces of a file of any length, one in memory at a time; for a stream or a compressed file, yield the
    result of :func:`content`, whose flaw is added to ``problems``. Raises as :func:`content` does."""

    def whole() -> bytes:
        got = content(path, kind="log")
        if got.flaw and problems is not None:
            problems.append(f"{shown_name(path)}: {got.flaw}")
        return got.data

    plain = Path(path)
    if is_stdin(path) or not plain.is_file():
        yield whole()
        return
    try:
        with plain.open("rb") as file:
            first = file.read(CHUNK)
            if first.startswith(_ZSTD) or any(first.startswith(magic) for magic, _, _ in _PACKED):
                yield whole()
                return
            yield first
            yield from _chunks(file)
    except OSError as error:
        raise UnreadableFile(f"{path}: {os_reason(error)}") from None


def raw_pieces(path: str | os.PathLike[str], size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, device or stream of any length as they are, never unpacked, in pieces of ``size``; the
    last may be shorter. Raises :class:`UnreadableFile`."""
    try:
        with contextlib.ExitStack() as files:
            file = sys.stdin.buffer if is_stdin(path) else files.enter_context(open(path, "rb"))
            while piece := file.read(size):
                yield piece
    except OSError as error:
        raise UnreadableFile(f"{shown_name(path)}: {os_reason(error)}") from None


def read_text(path: str | os.PathLike[str], kind: str, most: int = TEXT_LIMIT, errors: str = "strict") -> str:
    """Return a whole text file in UTF-8 without its byte-order mark. ``errors`` as for
    :meth:`bytes.decode`; a reader that is not strict also gets binary data, line by line.

    Raises :class:`UnreadableFile` as :func:`content` does, and if the file is cut, binary or not UTF-8.
    """
    got = text_content(path, most, kind) if errors == "strict" else content(path, most, kind)
    if got.flaw:
        raise UnreadableFile(f"{shown_name(path)}: {got.flaw}")
    try:
        return got.data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{shown_name(path)}: not UTF-8 text (byte {error.start}); give a {kind}") from None


def nul_in(data: bytes) -> int:
    """Return the position of the first NUL byte of binary data, -1 for text. NUL bytes after a text, left by a power
    failure, are accepted; a file of NUL bytes alone is binary."""
    text = data.rstrip(b"\0")
    return (text if text.strip() else data).find(b"\0")


def text_content(path: str | os.PathLike[str], most: int | None = None, kind: str = "fabric file") -> Content:
    """Return :func:`content` as text. Raises :class:`UnreadableFile` also for binary data
    (:func:`nul_in`)."""
    got = content(path, most, kind)
    if (at := nul_in(got.data)) >= 0:
        raise UnreadableFile(f"{shown_name(path)}: binary data (byte {at} is NUL); give a {kind}, which is text")
    return got


def json_document(path: str | os.PathLike[str], kind: str, hint: str, most: int = 256 << 20) -> Any:
    """Return the document in a JSON file. ``hint``: what to do if the file is not JSON.

    Raises :class:`UnreadableFile` as :func:`read_text` does.
    """
    try:
        return load_json(read_text(path, kind, most))
    except ValueError:
        raise UnreadableFile(f"{shown_name(path)}: not JSON; {hint}") from None


def small_content(path: str | os.PathLike[str], most: int) -> Content:
    """Return at most ``most`` unpacked bytes of the file; ``flaw`` is set only if the damage is within them. Raises
    as :func:`content`."""
    path = Path(path)
    name = shown_name(path)
    if is_stdin(path):
        return _unpacked(name, iter([_standard_input()]), most)
    try:
        status = path.stat()
        if stat.S_ISFIFO(status.st_mode):
            return _unpacked(name, iter([_fifo(path, (status.st_dev, status.st_ino))]), most)
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableFile(f"{path}: a directory, not a file; name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile(
                f"{path}: not a regular file; save the text in a file, or pipe it to standard input and use -"
            )
        with path.open("rb") as file:
            return _unpacked(name, _chunks(file), most)
    except OSError as error:
        raise UnreadableFile(f"{path}: {os_reason(error)}") from None


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
            f"{name}: the file is compressed with zstd, which softib cannot unpack; use zstd -dc FILE | softib … -"
        )
    for magic, method, make in _PACKED:
        if first.startswith(magic):
            data, flaw = _unpack(first, chunks, make, magic, most)
            if flaw == _BOMB:
                raise UnreadableFile(
                    f"{name}: the {method} data unpacks to more than {PACKED_RATIO} times its size; unpack it, and use "
                    f"the result"
                )
            if flaw and not data:
                raise UnreadableFile(f"{name}: the {method} data cannot be unpacked: {flaw}")
            return Content(bytes(data), flaw and f"the {method} data cannot be unpacked from here on: {flaw}")
    plain = bytearray(first[:most])  # grows in place: no second copy while it is joined
    while len(plain) < most and (chunk := next(chunks, b"")):
        plain += chunk[: most - len(plain)]
    return Content(bytes(plain))


_BOMB = "bomb"


def _unpack(
    chunk: bytes, chunks: Iterator[bytes], make: Callable[[], _Unpacker], magic: bytes, most: int
) -> tuple[bytearray, str]:
    """Return at most ``most`` bytes and the error of the stream (empty: none). Several members are one file
    (gzip(1))."""
    out = bytearray()
    packed = len(chunk)
    unpacker = make()
    try:
        while len(out) < most:
            allowed = max(PACKED_FLOOR, PACKED_RATIO * packed)
            out += unpacker.decompress(chunk, min(most - len(out), CHUNK))
            chunk = b""
            if unpacker.eof:
                rest = unpacker.unused_data or next(chunks, b"")
                if not rest.strip(b"\0"):
                    break  # padding, as on tapes
                if not rest.startswith(magic[: len(rest)]):
                    return out, "something else follows it"
                unpacker, chunk = make(), rest
            elif unpacker.needs_input:
                if not (chunk := next(chunks, b"")):
                    return out, "it is cut"
                packed += len(chunk)
            elif len(out) > allowed:
                return out, _BOMB
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
        return out, " ".join(str(error).split())[:100] or type(error).__name__
    return out, ""
