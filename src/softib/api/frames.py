"""Columns as tables of polars, the same for every result; a notebook's ``to_pandas()`` is polars' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from softib.errors import MissingLibrary

if TYPE_CHECKING:
    import polars

__all__ = ["frame", "library"]


def frame(columns: Mapping[str, Any]) -> polars.DataFrame:
    """A table of ``columns`` (NumPy arrays or lists of one length). Raises :class:`MissingLibrary` without polars."""
    polars: Any = library("polars", "tables")
    return polars.DataFrame([_series(polars, name, values) for name, values in columns.items()])


def library(name: str, extra: str) -> Any:
    """The module ``name``, which softib's optional ``extra`` installs. Raises :class:`MissingLibrary`."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(f"{name} is not installed; pip install 'softib[{extra}]'") from None


def _series(polars: Any, name: str, values: Any) -> Any:
    """Lists are texts, None where nothing is known; wire images are big-endian or strided, and polars wants neither."""
    import numpy as np

    if isinstance(values, np.ndarray):
        return polars.Series(name, np.ascontiguousarray(values, values.dtype.newbyteorder("=")))
    texts = all(v is None or isinstance(v, str) for v in values)
    return polars.Series(name, values, dtype=polars.String if texts else None)
