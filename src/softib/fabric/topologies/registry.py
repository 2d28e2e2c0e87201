"""Every topology kind by name, and the one call that makes a fabric of it.

Installed packages add kinds: entry points of the group ``softib.topologies``, each a
:class:`~softib.fabric.topologies.params.Kind` under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

from softib.errors import InputError, UnknownName
from softib.extensions import blamed_on, extensions
from softib.fabric.model import Fabric
from softib.fabric.topologies import dragonfly, fat_tree, grid, rail_optimized
from softib.fabric.topologies.params import COMMON, FORMS, Kind, Parameter
from softib.plural import counted

__all__ = ["KINDS", "generate", "kinds", "markdown", "parameter_table", "spec_text"]

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (fat_tree.KIND, rail_optimized.KIND, *dragonfly.KINDS, *grid.KINDS)
}
"""softib's own kinds by name, in the order of the documentation."""


@cache
def kinds() -> Mapping[str, Kind]:
    """All kinds by name, softib's own first. Warns about entry points that cannot be used."""
    installed = extensions("softib.topologies", KINDS, _check_kind)
    return {**KINDS, **{name: replace(one.value, package=one.package) for name, one in installed.items()}}


def _check_kind(name: str, value: Any) -> None:
    """Raise :class:`InputError` for a ``value`` that is not a kind called ``name``."""
    if not isinstance(value, Kind) or not callable(value.build):
        raise InputError("it is not a softib.fabric.topologies.params.Kind with a function build")
    if value.name != name:
        raise InputError(f"its kind is called {value.name!r}; call it {name!r}")
    common = {p.name for p in COMMON}
    for p in value.parameters:
        if not isinstance(p, Parameter) or p.form not in FORMS:
            raise InputError(f"{p!r} is not a Parameter of a form {', '.join(FORMS)}")
        if p.name in common:
            raise InputError(f"its parameter {p.name} is one that every kind has; name it otherwise")


def generate(kind: str, **params: Any) -> Fabric:
    """The fabric of topology ``kind`` with ``params`` (see ``kinds()[kind].all_parameters``), powered
    on.

    ``fabric.source.generator`` holds ``kind``, ``params`` with defaults filled in, and the
    structural truth (:meth:`~softib.fabric.topologies.blueprint.Blueprint.build`).

    Raises :class:`UnknownName` for a kind or parameter that does not exist, :class:`TopologyError`
    for an impossible one, :class:`LimitError` for one that no memory holds.
    """
    if kind not in kinds():
        raise UnknownName("topology kind", str(kind), kinds())
    row = kinds()[kind]
    values = row.checked(params)
    with blamed_on(row.package, f"topology {kind}") if row.package else nullcontext():
        fabric: Fabric = row.build(values)
        if not isinstance(fabric, Fabric):
            raise TypeError(f"it gave {type(fabric).__name__}, not Fabric")
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

    generator = fabric.source.generator
    if "kind" not in generator:
        raise InputError(f"{fabric.name or 'this fabric'} was read, not generated; write it with softib convert")
    kind, params = kinds()[generator["kind"]], generator["params"]
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
