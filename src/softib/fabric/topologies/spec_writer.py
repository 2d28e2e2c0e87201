"""The fabric.yaml of a generated fabric: one line a key, as people write it."""

from __future__ import annotations

from typing import Any

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.plural import counted

__all__ = ["spec_text"]


def spec_text(fabric: Fabric, given: dict[str, Any] | None = None) -> str:
    """The text from which :func:`softib.fabric.topologies.spec.load_fabric_yaml` makes ``fabric``
    again.

    ``given`` are the parameters that somebody chose (default: all that the generator used). Raises
    :class:`InputError` for a fabric that no generator made.
    """
    import yaml

    from softib.fabric.topologies.registry import KINDS

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
