"""A fabric as a graph of networkx, and as a drawing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.analysis import columns
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.node_finder import distinct_names
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.analysis.model import Report

__all__ = ["Drawing", "drawing", "multigraph"]


def multigraph(fabric: Fabric, networkx: Any) -> Any:
    """Return a graph: nodes by name (with the GUID if names are ambiguous), one edge per cable."""
    table, links = columns.nodes(fabric), columns.links(fabric)
    label = distinct_names(fabric)
    graph = networkx.MultiGraph(name=fabric.name)
    graph.add_nodes_from(
        (n, {"type": t, "guid": g}) for n, t, g in zip(label, table["type"], table["guid"], strict=True)
    )
    ends = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    a, b = fabric.port_node[ends].T.tolist()
    rows = zip(
        a,
        b,
        links["port_a"].tolist(),
        links["port_b"].tolist(),
        links["gbps"].tolist(),
        links["length_m"].tolist(),
        strict=True,
    )
    graph.add_edges_from(
        (label[i], label[j], {"ports": (p, q), "gbps": gbps, "length_m": length}) for i, j, p, q, gbps, length in rows
    )
    return graph


class Drawing:
    """A drawing as SVG: a notebook shows it, ``str()`` returns its text, and :meth:`save` writes it."""

    def __init__(self, svg: str):
        self._svg = svg

    def __str__(self) -> str:
        return self._svg

    def __repr__(self) -> str:
        return f"<Drawing: {len(self._svg):,} characters of SVG; .save(path) writes it>"

    def _repr_svg_(self) -> str:
        return self._svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to ``path`` and return the path. Raises :class:`InputError` if that is
        impossible, or for a suffix other than ``.svg``."""
        to = Path(path)
        if to.suffix.lower() not in ("", ".svg"):
            raise InputError(
                f"{to}: drawings can be saved only as SVG; save {to.with_suffix('.svg')} and convert it (rsvg-convert, "
                f"Inkscape)"
            )
        write_text(to, self._svg)
        return to


def drawing(report: Report) -> Drawing:
    """Draw the switches of ``report`` by tier, with cables coloured by load or by finding."""
    from softib.render.html import drawing_svg

    return Drawing(drawing_svg(report))
