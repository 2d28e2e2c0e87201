"""Chakra files by their wire format, without a protobuf library."""

from __future__ import annotations

from pathlib import Path


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(number: int, kind: int, *, data: bytes = b"", micros: int = 0, **attributes: int | bytes) -> bytes:
    """A node; attributes are int64_val, or of bytes string_val (et_def.proto)."""
    made = field(1, number) + field(2, b"n%d" % number) + field(3, kind) + (field(5, data) if data else b"")
    made += field(7, micros) if micros else b""
    return made + b"".join(
        field(10, field(1, k.encode()) + field(29 if isinstance(v, bytes) else 9, v)) for k, v in attributes.items()
    )


def et(*nodes: bytes) -> bytes:
    return b"".join(varint(len(m)) + m for m in (field(1, b"0.0.4"), *nodes))


def written(tmp_path: Path, *ranks: bytes) -> Path:
    for rank, data in enumerate(ranks):
        (tmp_path / f"t.{rank}.et").write_bytes(data)
    return tmp_path / "t.0.et"
