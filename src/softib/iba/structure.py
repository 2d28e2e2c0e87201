"""Wire structures, each declared once. Codec, columns, dump and documentation follow from the
declaration.

A structure is a class with fields in wire order, most significant bit first, big-endian, as the
specification draws them::

    class SMInfo(Structure, size=64, attr=0x20, section="14.2.5.13"):
        guid = field(64, "PortGUID of the port where the SM resides")
        sm_key = field(64, "...")
        act_count = field(32, "...")
        priority = field(4, "...")
        sm_state = field(4, "...")

Every field is a :class:`Field`, an attribute of the class. It works on a single structure and on
arrays of structures, because each operation is defined on ``uint8[..., size]``:

* ``SMInfo.guid.get(buf)`` returns native integers of shape ``buf.shape[:-1]``;
* ``SMInfo.guid.set(buf, values)`` writes in place and changes no other bit;
* ``SMInfo.unpack(buf)`` returns ``{name: values}``, and ``SMInfo.pack(guid=…, …)`` returns
  ``uint8[size]`` (or ``[n, size]``);
* ``SMInfo.dump(buf)`` returns one line per field.

``set`` keeps bits without a name, and ``unpack`` also returns reserved fields (``_reserved…``), so
``pack(**unpack(x)) == x`` for every byte string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

__all__ = ["Field", "Structure", "array", "field", "reserved", "text"]

_NATIVE = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))
_BIG_ENDIAN = {16: ">u2", 32: ">u4", 64: ">u8"}


class Field:
    """A field of a wire structure.

    ``offset`` and ``bits`` count bits from the start of the structure; ``byte`` is the byte that
    contains the first bit. If ``count`` is above 1, the field is an array of equal elements, and
    ``get`` adds a last axis. If ``is_text`` is set, the field is ``bits/8`` bytes of NUL-padded
    UTF-8.
    """

    __slots__ = ("at", "bits", "byte", "count", "doc", "is_text", "name", "offset", "unit")

    def __init__(self, bits: int, doc: str, count: int = 1, is_text: bool = False, at: int | None = None):
        self.bits, self.doc, self.count, self.is_text, self.at = bits, doc, count, is_text, at
        self.name = ""
        self.offset = self.byte = 0

    def place(self, name: str, offset: int) -> None:
        """Set the name and the bit offset. The declaration of the class calls this once."""
        self.name, self.offset, self.byte = name, offset, offset // 8
        aligned = offset % 8 == 0 and self.bits % 8 == 0
        if not aligned and (offset % 8 + self.bits > 64 or (self.count > 1 and 8 % self.bits)):
            raise TypeError(f"field {name}: {self.bits} bits at bit {offset} is not supported")

    @property
    def width(self) -> int:
        """Number of bits of all elements together."""
        return self.bits * self.count

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """Return the smallest native unsigned type that can hold one element."""
        for bits, dtype in _NATIVE:
            if self.bits <= bits:
                return dtype
        raise TypeError(f"{self.name}: there is no native type of {self.bits} bits")

    @property
    def mask(self) -> int:
        """Return the largest value of one element."""
        return (1 << self.bits) - 1

    def get(self, buf: np.ndarray) -> np.ndarray:
        """Return the values of this field in ``buf`` (``uint8[..., size]``): a new array of native
        integers with shape ``[...]`` (or ``[..., count]``)."""
        if self.is_text:
            return buf[..., self.byte : self.byte + self.bits // 8].copy()
        if self.count == 1:
            return self._get_at(buf, self.offset)
        return np.stack([self._get_at(buf, self.offset + i * self.bits) for i in range(self.count)], axis=-1)

    def set(self, buf: np.ndarray, value: Any, where: Any = None) -> None:
        """Write one value or an array of values in place. ``where`` (an index or mask of rows)
        limits the write to some rows.

        A value that is wider than the field raises ``ValueError``; no value is truncated.
        """
        rows = buf if where is None else buf[where]
        if self.is_text:
            rows[..., self.byte : self.byte + self.bits // 8] = value
        else:
            # NumPy would convert 64-bit Python integers of both signs to floats, because they have
            # no common integer type.
            values = value if isinstance(value, np.ndarray) else np.asarray(value, object)
            if values.size and (int(values.max()) > self.mask or int(values.min()) < 0):
                raise ValueError(f"{self.name}: {int(values.max()):#x} does not fit in {self.bits} bits")
            values = values.astype(np.uint64)
            if self.count == 1:
                self._set_at(rows, self.offset, values)
            else:
                for i in range(self.count):
                    self._set_at(rows, self.offset + i * self.bits, values[..., i])
        if where is not None:
            buf[where] = rows

    def _get_at(self, buf: np.ndarray, offset: int) -> np.ndarray:
        first, last = offset // 8, (offset + self.bits - 1) // 8
        if first == last:
            shift = 7 - (offset + self.bits - 1) % 8
            return np.asarray((buf[..., first] >> shift) & np.uint8(self.mask)).astype(self.dtype, copy=False)
        # a whole integer: a single view is faster than the loop below
        if self.bits in _BIG_ENDIAN and offset % 8 == 0:
            octets = np.asarray(buf[..., first : last + 1], np.uint8)
            octets = octets if octets.strides[-1] == 1 else octets.copy()
            return octets.view(_BIG_ENDIAN[self.bits])[..., 0].astype(self.dtype)
        acc = np.zeros(buf.shape[:-1], np.uint64)
        for i in range(first, last + 1):
            acc = (acc << np.uint64(8)) | buf[..., i].astype(np.uint64)
        shift = 7 - (offset + self.bits - 1) % 8
        return np.asarray((acc >> np.uint64(shift)) & np.uint64(self.mask)).astype(self.dtype)

    def _set_at(self, buf: np.ndarray, offset: int, values: np.ndarray) -> None:
        first, last = offset // 8, (offset + self.bits - 1) // 8
        shift = 7 - (offset + self.bits - 1) % 8
        if offset % 8 == 0 and shift == 0:
            v = values
            for i in range(last, first - 1, -1):
                buf[..., i] = (v & np.uint64(0xFF)).astype(np.uint8)
                v = v >> np.uint64(8)
            return
        v = values << np.uint64(shift)
        keep = ~(self.mask << shift)
        for i in range(last, first - 1, -1):
            old = buf[..., i] & np.uint8(keep & 0xFF)
            buf[..., i] = old | (v & np.uint64(0xFF)).astype(np.uint8)
            v, keep = v >> np.uint64(8), keep >> 8

    def __repr__(self) -> str:
        return f"<{self.name}: {self.bits} bits at byte {self.byte}.{self.offset % 8}>"


def field(bits: int, doc: str) -> Any:
    """Return a component of ``bits`` bits (1–64), an unsigned integer."""
    return Field(bits, doc)


def array(count: int, bits: int, doc: str) -> Any:
    """Return ``count`` consecutive components of ``bits`` bits each."""
    return Field(bits, doc, count=count)


def text(octets: int, doc: str) -> Any:
    """Return a component of ``octets`` bytes of NUL-padded UTF-8 (NodeDescription)."""
    return Field(octets * 8, doc, is_text=True)


def reserved(bits: int) -> Any:
    """Return ``bits`` reserved bits. ``set`` keeps their value, and dumps omit them."""
    return Field(bits, "reserved")


class Structure:
    """Base class of all wire structures (see the docstring of this module)."""

    size: ClassVar[int] = 0
    attr: ClassVar[int | None] = None
    section: ClassVar[str] = ""
    fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls, size: int = 0, attr: int | None = None, section: str = "", **kw: Any):
        super().__init_subclass__(**kw)
        placed: dict[str, Field] = {}
        offset = 0
        for name, f in _split_reserved(list(vars(cls).items())):
            f.place(name, offset)
            placed[name] = f
            setattr(cls, name, f)
            offset += f.width
        if offset % 8:
            raise TypeError(f"{cls.__name__}: {offset} bits is not a whole number of bytes")
        cls.size = size or offset // 8
        if offset > cls.size * 8:
            raise TypeError(f"{cls.__name__}: fields take {offset // 8} bytes, more than {cls.size}")
        for name, f in _split_reserved([("_reserved_tail", Field(cls.size * 8 - offset, "reserved"))]):
            if f.bits:
                f.place(name, offset)
                placed[name] = f
                offset += f.width
        cls.attr, cls.section, cls.fields = attr, section, placed

    @classmethod
    def zeros(cls, *shape: int) -> np.ndarray:
        """Return a new ``uint8[*shape, size]`` that is filled with zeros."""
        return np.zeros((*shape, cls.size), np.uint8)

    @classmethod
    def unpack(cls, buf: bytes | np.ndarray) -> dict[str, Any]:
        """Return all fields by name, including reserved ones. From bytes, values are Python
        integers; from an array, they are columns."""
        if isinstance(buf, bytes | bytearray | memoryview):
            data = np.frombuffer(bytes(buf), np.uint8)
            if len(data) != cls.size:
                raise ValueError(f"{cls.__name__} is {cls.size} bytes, got {len(data)}")
            return {n: _plain(f, f.get(data)) for n, f in cls.fields.items()}
        return {n: f.get(buf) for n, f in cls.fields.items()}

    @classmethod
    def pack(cls, **values: Any) -> np.ndarray:
        """Return ``uint8[size]`` if all values are scalars, or ``uint8[n, size]`` if a value is a
        column with ``n`` entries."""
        unknown = set(values) - set(cls.fields)
        if unknown:
            raise KeyError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        shapes = [
            np.shape(v)[: -1 if cls.fields[n].count > 1 or cls.fields[n].is_text else None]
            for n, v in values.items()
            if not isinstance(v, bytes | str)
        ]
        buf = np.zeros((*np.broadcast_shapes(*shapes), cls.size), np.uint8)
        for name, value in values.items():
            f = cls.fields[name]
            f.set(buf, _text_octets(value, f.bits // 8) if f.is_text else value)
        return buf

    @classmethod
    def mask_of(cls, *fields: Field) -> np.ndarray:
        """Return ``uint8[size]`` in which the bits of ``fields`` are 1."""
        mask = cls.zeros()
        for f in fields:
            f.set(mask, f.mask)
        return mask

    @classmethod
    def named(cls) -> Iterator[Field]:
        """Return the fields that the specification names, in wire order."""
        return (f for n, f in cls.fields.items() if not n.startswith("_"))

    @classmethod
    def dump(cls, buf: bytes | np.ndarray) -> str:
        """Return the dump of one structure, one line per named field: ``name:..........value``."""
        data = np.frombuffer(bytes(buf), np.uint8) if not isinstance(buf, np.ndarray) else buf
        lines = []
        for f in cls.named():
            value = _plain(f, f.get(data))
            if isinstance(value, bytes):
                value = value.split(b"\0")[0].decode("utf-8", "replace")
            shown = value if isinstance(value, str | list) else f"{value:#x}" if f.bits > 8 else value
            lines.append(f"{f.name + ':':.<36}{shown}")
        return "\n".join(lines)


def _split_reserved(items: list[tuple[str, Any]]) -> list[tuple[str, Field]]:
    """Return only the fields among ``items``. Reserved ranges are split into aligned pieces of at
    most 64 bits, so that :meth:`Structure.unpack` can return them."""
    out: list[tuple[str, Field]] = []
    offset = 0
    for name, f in items:
        if not isinstance(f, Field):
            continue
        if not name.startswith("_") or f.bits <= 56:
            out.append((name, f))
            offset += f.width
            continue
        left, part = f.bits, 0
        while left:
            bits = min(left, 8 - offset % 8 if offset % 8 else 64 if left % 8 == 0 else left % 8 or 8)
            out.append((f"{name}_{part}", Field(bits, "reserved")))
            offset, left, part = offset + bits, left - bits, part + 1
    return out


def _plain(f: Field, value: np.ndarray) -> Any:
    if f.is_text:
        return bytes(value)
    return [int(v) for v in value] if f.count > 1 else int(value)


def _text_octets(value: Any, octets: int) -> np.ndarray:
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return np.frombuffer(raw[:octets].ljust(octets, b"\0"), np.uint8)
    return np.asarray(value, np.uint8)
