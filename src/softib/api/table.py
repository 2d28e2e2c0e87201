"""The table of every result: columns of equal length, usable without any other library."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from softib.api.arguments import Suggests, checked_methods, totals
from softib.errors import InputError, MissingLibrary, UnknownName
from softib.extras import install_command
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import Result, columns, html_table

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Rows", "Table", "library"]

R = TypeVar("R", bound=Result)

SHOWN = 10
"""Number of rows in the representation of a table."""
WIDEST, LINE = 32, 120
"""Maximum number of characters in a printed cell, and in a line."""
WIDEST_ERROR = 300


class Table:
    """Columns of one length.

    ``columns``, ``rows()``, ``column(name)``, ``head()`` and ``len()`` need no other library. All
    other methods are those of polars' DataFrame (``filter``, ``sort``, ``group_by`` …) and need the
    extra ``softib[tables]``.

    >>> import softib
    >>> links = softib.generate("fat-tree", radix=4, levels=2).links
    >>> len(links), links.columns[:3]
    (16, ['node_a', 'port_a', 'node_b'])
    >>> links.rows(named=True)[0]["node_a"]
    'leaf-1'
    """

    def __init__(self, columns: Mapping[str, Any]):
        self._columns = dict(columns)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.height, self.width

    def column(self, name: str) -> list[Any]:
        """Return the values of column ``name`` as Python numbers and text. Raises
        :class:`UnknownName`."""
        return _plain(self._values(name))

    def rows(self, *, named: bool = False) -> list[Any]:
        """Return one tuple per row, or with ``named`` one dict per row."""
        return list(self.iter_rows(named=named))

    def iter_rows(self, *, named: bool = False) -> Iterator[Any]:
        """Return :meth:`rows`, one at a time."""
        rows = zip(*map(_plain, self._columns.values()), strict=True)
        return (dict(zip(self._columns, row, strict=True)) for row in rows) if named else rows

    def head(self, n: int = 5) -> Table:
        """Return the first ``n`` rows."""
        return Table({name: values[: max(n, 0)] for name, values in self._columns.items()})

    def to_polars(self) -> polars.DataFrame:
        """Return a DataFrame of polars. Raises :class:`MissingLibrary` without polars
        (``softib[tables]``)."""
        return self._polars.clone()

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame of pandas. Raises :class:`MissingLibrary` without pandas
        (``softib[pandas]``)."""
        data_frame = library("pandas", "pandas").DataFrame
        frame: pandas.DataFrame = data_frame({name: _native(values) for name, values in self._columns.items()})
        return frame

    @cached_property
    def _polars(self) -> polars.DataFrame:
        of: Any = library("polars", "tables")
        frame: polars.DataFrame = of.DataFrame([_series(of, name, v) for name, v in self._columns.items()])
        return frame

    def _at(self, rows: Any) -> Table:
        """Return the rows with these numbers."""
        chosen = lambda values: [values[k] for k in rows] if isinstance(values, list) else values[rows]
        return Table({name: chosen(values) for name, values in self._columns.items()})

    def _values(self, name: str) -> Any:
        if name not in self._columns:
            raise UnknownName("column", name, self._columns)
        return self._columns[name]

    def __getitem__(self, key: Any) -> Any:
        """``table["gbps"]`` is a column: polars' Series, or NumPy's array without polars. A slice
        returns rows; any other key is passed to polars."""
        if isinstance(key, str):
            import numpy as np

            values = self._values(key)
            try:
                return self._polars[key]
            except MissingLibrary:
                return _native(values) if isinstance(values, np.ndarray) else np.array(values, object)
        if isinstance(key, slice):
            return Table({name: values[key] for name, values in self._columns.items()})
        return _of_frames(self._polars.__getitem__)(key)

    def __len__(self) -> int:
        return self.height

    def __iter__(self) -> Iterator[Any]:
        """Iterate over columns, as polars' DataFrame does; use :meth:`iter_rows` for rows."""
        return (self[name] for name in self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"Table has no {name!r}", name=name, obj=self)
        try:
            attribute = getattr(self._polars, name)
        except MissingLibrary as error:
            names = ", ".join(n for n in dir(type(self)) if not n.startswith("_"))
            raise AttributeError(
                f"Table.{name} needs polars: {error}. Without polars, Table has {names}", name=name, obj=self
            ) from None
        except AttributeError:
            raise AttributeError(f"Table has no {name!r}", name=name, obj=self) from None
        return _of_frames(attribute) if callable(attribute) else attribute

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._polars.__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.array(self.rows(), dtype)

    def __dir__(self) -> list[str]:
        try:
            return sorted({*object.__dir__(self), *dir(self._polars)})
        except MissingLibrary:
            return sorted(object.__dir__(self))

    def __repr__(self) -> str:
        return "\n".join((f"<Table: {counted(self.height, 'row')} × {self.width} columns>", *self._lines()))

    def _lines(self) -> list[str]:
        """Return the heading and the first rows, without the columns for which a line has no room."""
        names = self.columns
        cells = [names, *([_cell(v) for v in row] for row in self.head(SHOWN).iter_rows())]
        right = [all(isinstance(v, int | float) for v in _plain(self._columns[n][:SHOWN])) for n in names]
        widths = [max(len(line[k]) for line in cells) for k in range(len(names))]
        fit = next((k for k in range(len(names)) if sum(widths[: k + 1]) + 2 * k > LINE - 4), len(names)) or len(
            names[:1]
        )
        lines = []
        for number, line in enumerate(cells):
            parts = [line[k].rjust(widths[k]) if right[k] else line[k].ljust(widths[k]) for k in range(fit)]
            rest = "" if fit == len(names) else f"  … {len(names) - fit} more columns" if number == 0 else "  …"
            lines.append(f"{'  '.join(parts)}{rest}".rstrip())
        return [*lines, *(["…"] if self.height > SHOWN else [])]

    def _repr_html_(self) -> str:
        rows = (map(_cell, row) for row in self.head(SHOWN).iter_rows())
        rest = f", the first {SHOWN} here" if self.height > SHOWN else ""
        return (
            f"{html_table(self.columns, rows)}<small>{counted(self.height, 'row')} × {self.width} columns{rest}</small>"
        )


checked_methods(Table)


class Rows(Suggests, Sequence[R], Generic[R]):
    """Base class of results that are lists, for example of findings. A slice has the same class."""

    row: ClassVar[type[Result]]
    """Class of the elements, whose fields are the columns of the table."""
    by: ClassVar[str]
    """Field whose values are counted in ``repr``."""
    rows: list[R]

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> R | Self:
        return self._with(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def _with(self, rows: list[R]) -> Self:
        """Return an object of the same class with other rows."""
        return replace(self, rows=rows)  # type: ignore[type-var]

    def table(self) -> Table:
        """Return a table with one row per element and one column per field."""
        return Table(columns(self.rows, self.row))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {totals(self.table().column(self.by)) or 'none'}>"

    def _repr_html_(self) -> str:
        table = self.table()
        return html_table(table.columns, table.iter_rows()) if len(self) else "<p>none</p>"


def library(name: str, extra: str) -> Any:
    """Return the module ``name``, which is installed with softib's extra ``extra``. Raises
    :class:`MissingLibrary`."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(f"{name} is not installed; {install_command(extra)}") from None


def _of_frames(method: Any) -> Any:
    """Return a method of polars that accepts tables in place of DataFrames (``join``, ``vstack``, ``equals``). Its
    errors become :class:`InputError`, also those that ``group_by`` raises only when its result is
    used."""
    frame = lambda value: value.to_polars() if isinstance(value, Table) else value

    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        with _as_input_error(method.__name__):
            result = method(*map(frame, args), **{key: frame(value) for key, value in named.items()})
        return _Groups(result) if type(result).__name__.endswith("GroupBy") else result

    return called


@contextmanager
def _as_input_error(method: str) -> Iterator[None]:
    """Raise errors of polars as :class:`InputError`."""
    polars_error = library("polars", "tables").exceptions.PolarsError
    try:
        yield
    except (polars_error, TypeError, ValueError, IndexError, OverflowError, OSError) as error:
        raise InputError(f"Table.{method}: {shown(str(error), WIDEST_ERROR)}") from None


class _Groups:
    """The result of ``group_by``; as in polars, its columns are looked up only when it is used."""

    def __init__(self, groups: Any):
        self._groups = groups

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._groups, name)
        return _of_frames(attribute) if callable(attribute) else attribute

    def __iter__(self) -> Iterator[Any]:
        with _as_input_error("group_by"):
            groups = list(self._groups)
        yield from groups


def _plain(values: Any) -> list[Any]:
    """Return values as Python numbers and text."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _cell(value: Any) -> str:
    """Return a value as text of at most :data:`WIDEST` characters."""
    if value is None or value != value:  # NaN: unknown
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _native(values: Any) -> Any:
    """Return a copy of ``values`` with arrays in this machine's byte order: wire images are big-endian or strided."""
    import numpy as np

    if isinstance(values, np.ndarray):
        return np.array(values, values.dtype.newbyteorder("="), order="C")
    return list(values)


def _series(polars: Any, name: str, values: Any) -> Any:
    """Return lists as text, and None for unknown values."""
    import numpy as np

    if isinstance(values, np.ndarray):
        return polars.Series(name, _native(values))
    texts = all(v is None or isinstance(v, str) for v in values)
    return polars.Series(name, values, dtype=polars.String if texts else None)
