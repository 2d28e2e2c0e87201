"""The wire format of Protocol Buffers: the fields of a message, and files that contain several messages.

This module replaces the ``protobuf`` package, because Chakra's files have only five kinds of fields, and generated code
would have to match the version of a runtime. Source: "Encoding" in the Protocol Buffers documentation (varints, tags,
wire types 0, 1, 2 and 5; groups, types 3 and 4, are deprecated).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["Value", "delimited", "double_of", "fields", "float_of", "signed", "varints"]

Value = int | bytes
"""Value of a field: an int (varint), or the bytes of any other type."""
FIXED = {1: 8, 5: 4}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it). Raises ValueError if it ends early or has more than 64
    bits."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                break
            return value, at
        shift += 7
    raise ValueError("ends inside a number" if at >= len(data) else "has a number of more than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield (number, value) of each field of a message. Raises ValueError for invalid bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in FIXED:
            length = FIXED[kind]
        else:
            raise ValueError(f"has a field of wire type {kind}")
        if length > len(data) - at:
            raise ValueError("ends inside a field")
        yield tag >> 3, data[at : at + length]
        at += length


def delimited(data: bytes) -> Iterator[bytes]:
    """Yield messages that each follow their length (varint), as written by ``writeDelimitedTo``."""
    at = 0
    while at < len(data):
        length, at = _varint(data, at)
        if length > len(data) - at:
            raise ValueError(f"ends inside a message of {length:,} bytes")
        yield data[at : at + length]
        at += length


def varints(value: Value) -> list[int]:
    """Return the values in one occurrence of a repeated integer field: one value, or several that are packed."""
    if isinstance(value, int):
        return [value]
    integers, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        integers.append(one)
    return integers


def signed(value: int) -> int:
    """Return a varint of type int32 or int64, which is stored as 64 bits of two's complement."""
    return value - (1 << 64) if value >> 63 else value


def double_of(value: Value) -> float:
    """Return a field of type double. Raises ValueError for a wrong length."""
    if isinstance(value, int) or len(value) != 8:
        raise ValueError("has a double of the wrong length")
    return float(struct.unpack("<d", value)[0])


def float_of(value: Value) -> float:
    """Return a field of type float. Raises ValueError for a wrong length."""
    if isinstance(value, int) or len(value) != 4:
        raise ValueError("has a float of the wrong length")
    return float(struct.unpack("<f", value)[0])
