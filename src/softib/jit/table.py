"""Pass many arrays to kernels as one argument.

A named tuple of arrays is expensive as an argument: Numba passes each array as seven or more
values, even in calls between kernels, and LLVM passes hundreds of arguments through every function.
A table is one pointer to the addresses and shapes of its arrays, which never change during its
lifetime. If this pointer is not supported (:mod:`softib.jit.accelerators`), kernels get the named
tuple.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softib.jit.rows import Array

__all__ = ["Table", "table"]


class Table:
    """Base of the classes created by :func:`table`. Its attributes are arrays and cannot be
    assigned."""

    _fields: tuple[str, ...] = ()
    NamedTuple: Any = None
    _types: dict[tuple[Any, ...], Any] = {}
    _widths: dict[str, int] = {}
    _single: frozenset[str] = frozenset()
    arrays: Mapping[str, Array] = {}

    def __init__(self, *arrays: Any, **named: Any):
        columns = dict(zip(self._fields, arrays, strict=False)) | named
        if set(columns) != set(self._fields) or len(arrays) + len(named) != len(self._fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}")
        self._keep(columns)

    def _keep(self, columns: dict[str, Any]) -> None:
        import numpy as np

        descriptors: list[int] = []
        for name in self._fields:
            array = columns[name]
            if array.shape[-1] != self._widths.get(name, array.shape[-1]):
                raise TypeError(f"{type(self).__name__}.{name} has {array.shape[-1]} columns, not {self._widths[name]}")
            descriptors += [array.ctypes.data, *array.shape]
            if not array.flags.c_contiguous:
                descriptors += array.strides
        vars(self).update({name: array[0] if name in self._single else array for name, array in columns.items()})
        vars(self)["_columns"] = columns
        vars(self)["_descriptors"] = kept = np.array(descriptors, np.int64)
        vars(self)["_address"] = kept.ctypes.data

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: arrays of a table cannot be replaced; write into them")

    def __getattr__(self, name: str) -> Any:
        if name != "_numba_type_":
            raise AttributeError(f"{type(self).__name__} has no {name}")
        # The creation of a type takes 100 us, and tables are created for many calls, so tables with
        # the same layout share a type.
        arrays = [self._columns[field] for field in self._fields]
        layout = tuple((a.dtype, a.ndim, a.flags.num) for a in arrays)
        kind = self._types.get(layout)
        if kind is None:
            from softib.jit.table_types import type_of

            kind = self._types[layout] = type_of(self)
        vars(self)["_numba_type_"] = kind
        return kind

    def __reduce__(self) -> Any:
        return type(self), tuple(self._columns[name] for name in self._fields)

    def as_named_tuple(self) -> Any:
        """Return the same arrays as a named tuple."""
        values = vars(self).get("_named_tuple")
        if values is None:
            values = vars(self)["_named_tuple"] = self.NamedTuple(*(getattr(self, name) for name in self._fields))
        return values

    def _replace(self, **named: Any) -> Any:
        """Return a table with some arrays replaced."""
        return type(self)(**{**self._columns, **named})


def table(name: str, fields: str | list[str] | Mapping[str, Array], widths: Mapping[str, int] | None = None) -> Any:
    """Return a class of tables with these fields, created and read like a named tuple of
    arrays.
    ``fields``: names, or names with a declaration of each array (:mod:`softib.jit.rows`), kept as
    ``arrays`` of the class. An array of one row is read as that row. ``widths``: the constant
    length of the last dimension of arrays; compiled kernels then multiply by a constant.

        Assign it to a global called ``name``: Numba's cache looks the class of the named tuple up
        there.
    """
    names = tuple(fields.split() if isinstance(fields, str) else fields)
    arrays = fields if isinstance(fields, Mapping) else {}
    single = frozenset(field for field, array in arrays.items() if not array.shape)
    module = sys._getframe(1).f_globals.get("__name__", __name__)
    plain = namedtuple(name, names, module=module)  # type: ignore[misc]
    plain.__qualname__ = f"{name}.NamedTuple"
    return type(
        name,
        (Table,),
        {
            "_fields": names,
            "NamedTuple": plain,
            "_types": {},
            "_widths": dict(widths or {}),
            "_single": single,
            "arrays": arrays,
            "__module__": module,
        },
    )
