"""Every topology kind by name, and the one call that makes a fabric of it."""

from __future__ import annotations

from typing import Any

from softib.errors import UnknownName
from softib.fabric.model import Fabric
from softib.fabric.topologies import (
    dragonfly,
    dragonfly_plus,
    fat_tree,
    hyperx,
    mesh,
    rail_optimized,
    ring,
    torus,
)
from softib.fabric.topologies.params import Kind

__all__ = ["KINDS", "generate", "markdown", "parameter_table"]

KINDS: dict[str, Kind] = {
    module.KIND.name: module.KIND
    for module in (fat_tree, rail_optimized, dragonfly, dragonfly_plus, torus, mesh, hyperx, ring)
}
"""Kind by name, in the order of the documentation."""


def generate(kind: str, **params: Any) -> Fabric:
    """The fabric of topology ``kind`` with ``params`` (see ``KINDS[kind].all_parameters``), powered
    on.

    ``fabric.source.generator`` holds ``kind``, ``params`` with defaults filled in, and the
    structural truth (:meth:`~softib.fabric.topologies.blueprint.Blueprint.build`).

    Raises :class:`UnknownName` for a kind or parameter that does not exist, :class:`TopologyError`
    for an impossible one, :class:`LimitError` for one that no memory holds.
    """
    if kind not in KINDS:
        raise UnknownName("topology kind", str(kind), KINDS)
    found = KINDS[kind]
    fabric: Fabric = found.build(found.checked(params))
    return fabric


def parameter_table(kind: str) -> list[tuple[str, str, str]]:
    """Rows (name, default, doc) of a kind's own parameters, for documentation."""
    rows = []
    for p in KINDS[kind].parameters:
        default = (
            "required"
            if p.required
            else "–"
            if p.default is None
            else f"{p.default:g}"
            if p.form == "ratio"
            else str(p.default)
        )
        rows.append((p.name, default, p.doc))
    return rows


def markdown() -> str:
    """The reference of all kinds, as ``docs/topologies.md`` has it."""
    out = []
    for kind in KINDS.values():
        out += [f"### `{kind.name}`", "", f"{kind.doc[0].upper()}{kind.doc[1:]}.", "", f"*Source:* {kind.source}.", ""]
        out += ["| parameter | default | meaning |", "|---|---|---|"]
        out += [f"| `{name}` | {default} | {doc} |" for name, default, doc in parameter_table(kind.name)]
        out.append("")
    return "\n".join(out)
