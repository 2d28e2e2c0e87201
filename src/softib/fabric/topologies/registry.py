"""All kinds of topology by name, and the function that generates a fabric. Installed packages add
kinds through entry points of the group ``softib.topologies``. Each is a
:class:`~softib.fabric.topologies.params.Kind` with the name of its entry point.
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
from softib.fabric.topologies.blueprint import Blueprint
from softib.fabric.topologies.params import COMMON, FORMS, Kind, Parameter
from softib.plural import counted

__all__ = ["KINDS", "blueprint", "generate", "kinds", "spec_text"]

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (fat_tree.KIND, rail_optimized.KIND, *dragonfly.KINDS, *grid.KINDS)
}
"""softib's kinds by name, in the order of the documentation."""


@cache
def kinds() -> Mapping[str, Kind]:
    """Return all kinds by name, softib's first. Warns about entry points that cannot be used."""
    installed = extensions("softib.topologies", KINDS, _check_kind)
    return {**KINDS, **{name: replace(one.value, package=one.package) for name, one in installed.items()}}


def _check_kind(name: str, value: Any) -> None:
    """Raise :class:`InputError` if ``value`` is not a :class:`Kind` with the name ``name``."""
    if not isinstance(value, Kind) or not callable(value.build):
        raise InputError("the entry point is not a softib.fabric.topologies.params.Kind with a function build")
    if value.name != name:
        raise InputError(f"the name of its Kind is {value.name!r}; use the name of the entry point, {name!r}")
    common = {p.name for p in COMMON}
    for p in value.parameters:
        if not isinstance(p, Parameter) or p.form not in FORMS:
            raise InputError(f"{p!r} is not a Parameter of a form {', '.join(FORMS)}")
        if p.name in common:
            raise InputError(f"its parameter {p.name} is a parameter of every kind; rename it")


def blueprint(kind: str, **params: Any) -> Blueprint:
    """Return the blueprint of one of softib's kinds (:data:`KINDS`): counts, names and cables of the fabric that
    :func:`generate` returns, before its tables exist. Raises as :func:`generate`."""
    row = KINDS[kind]
    drawn: Blueprint = row.build(row.checked(params))
    return drawn


def generate(kind: str, **params: Any) -> Fabric:
    """Generate the fabric of topology ``kind`` with the parameters ``params`` (listed in
    ``kinds()[kind].all_parameters``). It is powered on.

    ``fabric.source.generator`` holds ``kind``, ``params`` with defaults filled in, and the ground
    truth of the structure (:meth:`~softib.fabric.topologies.blueprint.Blueprint.build`).

    Raises :class:`UnknownName` for an unknown kind or parameter, :class:`TopologyError` for an
    impossible value, and :class:`LimitError` for a fabric that does not fit in memory.
    """
    if kind not in kinds():
        raise UnknownName("topology kind", str(kind), kinds())
    row = kinds()[kind]
    values = row.checked(params)
    with blamed_on(row.package, f"topology {kind}") if row.package else nullcontext():
        drawn = row.build(values)
        fabric = drawn.build() if isinstance(drawn, Blueprint) else drawn
        if not isinstance(fabric, Fabric):
            raise TypeError(f"build returned {type(fabric).__name__}, not Fabric")
        return fabric


def spec_text(fabric: Fabric, given: dict[str, Any] | None = None) -> str:
    """Return the text of a fabric file from which
    :func:`softib.fabric.topologies.spec.load_fabric_yaml` builds ``fabric`` again. ``given`` are
    the parameters that were set explicitly (default: all that the generator used). Raises
    :class:`InputError` if ``fabric`` was not generated.
    """
    import yaml

    generator = fabric.source.generator
    if "kind" not in generator:
        raise InputError(f"{fabric.name or 'this fabric'} was read, not generated; use softib convert to write it")
    kind, params = kinds()[generator["kind"]], generator["params"]
    chosen = params if given is None else given
    named = {
        p.name: chosen[p.name]
        for p in kind.all_parameters
        if p.name in chosen and chosen[p.name] is not None and p.name not in ("name", "generation")
    }
    head = {"name": fabric.name or params["name"], "generation": params["generation"]}
    data = {**head, "topology": {"kind": kind.name, **named}}
    size = fabric.sizes
    lines = [
        f"# {counted(size.switches, 'switch')}, {counted(size.nodes - size.switches, 'adapter')}, "
        f"{counted(size.cables, 'cable')}"
    ]
    for key, value in data.items():
        text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=100_000)
        lines.append(f"{key}: {text.removesuffix('...' + chr(10)).strip()}")
    return "\n".join(lines) + "\n"
