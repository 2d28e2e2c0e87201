"""The simulator's tables have names: each column its type, unit and text, and no code finds a column by a number.

The oracle is the source itself, read as a syntax tree, and NumPy's layout of the declared records.
"""

from __future__ import annotations

import ast
import importlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import softib.sim
from softib.jit.rows import Array, Column, Rows, i4, i8
from softib.sim.packet.congestion_control import congestion_controls
from softib.sim.packet.tables import Net, State

ROOT = Path(softib.sim.__file__).parent
ARRAYS = {f"{table.__name__}.{name}": a for table in (Net, State) for name, a in table.arrays.items()}
COLUMNS = [(where, c) for where, a in ARRAYS.items() if isinstance(a.of, Rows) for c in a.of]
BYTES = re.compile(r"[A-Z0-9_]+_AT")
"""Offsets in the bytes of a MAD, which :mod:`softib.iba` derives from the declared structures."""


def test_every_array_and_column_says_what_it_is():
    assert len(COLUMNS) > 300
    for where, a in ARRAYS.items():
        assert a.described.endswith((".", "loss.")), where
        assert isinstance(a.of, Rows) or (a.unit and np.dtype(a.of)), where
    for where, c in COLUMNS:
        assert c.unit and not c.text[0].islower() and c.text.endswith("."), (where, c.name)
        assert c.kind in ("int32", "int64", "float64"), (where, c.name)


def test_rows_lie_as_declared():
    """Columns follow each other without overlapping, and the rows that every packet touches are whole cache lines."""
    for where, a in ARRAYS.items():
        if not isinstance(a.of, Rows):
            continue
        fields = sorted((offset, kind.itemsize) for kind, offset in a.of.dtype.fields.values())
        shared = [c for c in a.of if c.over]
        assert len(fields) == len(a.of.columns) == len({c.name for c in a.of}), where
        if not shared:
            assert all(at + size <= after for (at, size), (after, _) in pairwise(fields)), where
    for name in ("Net.port", "State.port", "State.vl", "State.packet", "State.qp", "State.rc", "State.event"):
        assert ARRAYS[name].of.dtype.itemsize % 64 == 0, name
        assert ARRAYS[name].of.zeros(3).ctypes.data % 64 == 0


@pytest.mark.parametrize(
    "columns",
    [
        [i8("flags", "bits", "A name that NumPy's records have.")],
        [i8("now", "", "No unit.")],
        [i8("now", "ps", "")],
    ],
)
def test_a_column_without_unit_or_text_or_with_a_taken_name_is_refused(columns):
    with pytest.raises(TypeError, match="column"):
        Rows("Rows.", *columns)


def test_columns_share_bytes_only_where_they_say_so():
    rows = Rows("Rows.", i4("a", "1", "A."), i8("b", "1", "B."), Column("c", "int64", "1", "C.", 2, "b"))
    assert rows.dtype.fields["b"][1] == rows.dtype.fields["c"][1] == 8 and rows.dtype.itemsize == 24
    assert Array("n", rows).described == "Rows."


def modules() -> list[tuple[Path, ast.Module, dict]]:
    """(file, syntax tree, names) of every module of the simulator."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(("softib", "sim", *path.relative_to(ROOT).with_suffix("").parts))
        found.append((path, ast.parse(path.read_text("utf-8")), vars(importlib.import_module(name))))
    return found


def number(node: ast.expr, names: dict) -> bool:
    """Is an index a number that the source fixes: a literal beside other indices, or a constant by name?"""
    if isinstance(node, ast.Name) and node.id.isupper():
        return isinstance(names.get(node.id), int) and not BYTES.fullmatch(node.id)
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return not BYTES.fullmatch(node.attr)
    return False


def test_no_column_is_found_by_a_number():
    """``s.packet[k, 3]``, ``s.packet[k, PSN]`` and ``s.reg[NOW]`` are not in the packet layer, nor in kernels of the others."""
    wrong = []
    for path, tree, names in modules():
        of_tables = "packet" in path.parts or path.name.endswith("_kernels.py")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Subscript):
                continue
            several = isinstance(node.slice, ast.Tuple)
            parts = node.slice.elts if several else [node.slice]
            literal = (
                several and of_tables and any(isinstance(p, ast.Constant) and isinstance(p.value, int) for p in parts)
            )
            if literal or any(number(p, names) for p in parts):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert not wrong


def test_every_column_is_read():
    """A column that no code names is not declared."""
    named = {option for control in congestion_controls().values() for option in control.first.values()}
    for _, tree, _ in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                named.add(node.attr)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                named.add(node.slice.value)
    unused = [f"{where}.{c.name}" for where, c in COLUMNS if c.name not in named]
    assert not unused
