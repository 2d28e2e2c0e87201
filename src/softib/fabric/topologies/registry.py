"""Every topology kind by name, and the one call that makes a fabric of it."""

from __future__ import annotations

from typing import Any

from softib.errors import InputError, UnknownName
from softib.fabric.model import Fabric
from softib.fabric.topologies import dragonfly, fat_tree, grid, rail_optimized
from softib.fabric.topologies.params import Kind
from softib.plural import counted

__all__ = ["KINDS", "generate", "markdown", "parameter_table", "spec_text"]

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (fat_tree.KIND, rail_optimized.KIND, *dragonfly.KINDS, *grid.KINDS)
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


def spec_text(fabric: Fabric, given: dict[str, Any] | None = None) -> str:
    """The text from which :func:`softib.fabric.topologies.spec.load_fabric_yaml` makes ``fabric``
    again.

    ``given`` are the parameters that somebody chose (default: all that the generator used). Raises
    :class:`InputError` for a fabric that no generator made.
    """
    import yaml

    made = fabric.source.generator
    if "kind" not in made:
        raise InputError(f"{fabric.name or 'this fabric'} was read, not generated; write it with softib convert")
    kind, params = KINDS[made["kind"]], made["params"]
    chosen = params if given is None else given
    named = {
        p.name: chosen[p.name]
        for p in kind.all_parameters
        if p.name in chosen and chosen[p.name] is not None and p.name not in ("name", "generation")
    }
    data = {"name": params["name"], "generation": params["generation"], "topology": {"kind": kind.name, **named}}
    size = fabric.sizes
    lines = [
        f"# {counted(size.switches, 'switch')}, {size.nodes - size.switches} adapters, {counted(size.cables, 'cable')}"
    ]
    for key, value in data.items():
        text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=100_000)
        lines.append(f"{key}: {text.removesuffix('...' + chr(10)).strip()}")
    return "\n".join(lines) + "\n"
