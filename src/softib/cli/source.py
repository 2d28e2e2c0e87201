"""``SOURCE``: the one argument that every verb takes, and what it may be.

The path of a known format (found by content), a fabric.yaml, ``umad:DEVICE``, or the name of a running fabric. The last
two are promises of the command line that this version does not keep: it says so in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError, UnreadableFile

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult

__all__ = ["load"]


def load(source: str, ibnl: Sequence[str | Path] = (), node_name_map: str | None = None) -> ReadResult:
    """Read ``source``. Raises :class:`InputError` and its kin, one line each, where it is nothing readable."""
    if source.startswith("umad:"):
        raise InputError(f"{source}: reading a live port is not in this version; give a file, e.g. of ibnetdiscover")
    if not source:
        raise InputError("SOURCE is empty; give the path of a file")
    path = Path(source)
    if path.is_dir():
        raise UnreadableFile(f"{source}: this is a directory; give a file")
    if not path.exists():
        raise UnreadableFile(_absent(source))
    from softib.fabric.topologies import spec

    if spec.is_fabric_yaml(path):
        return spec.load_fabric_yaml(path, ibnl_dirs=ibnl, node_name_map=node_name_map)
    from softib.fabric.formats import registry

    return registry.read(path, ibnl_dirs=ibnl, node_name_map=node_name_map)


def _absent(source: str) -> str:
    from softib.errors import nearest

    path = Path(source)
    if "/" not in source and "." not in source:
        return f"{source}: no such file, and reading a running fabric by its name is not in this version; give a file"
    try:
        beside = sorted(p.name for p in path.parent.iterdir())[:10_000]
    except OSError:
        return f"{source}: no such file, nor its directory"
    near = nearest(path.name, beside)
    hint = f"; did you mean {', '.join(str(path.parent / n) for n in near)}?" if near else ""
    return f"{source}: no such file{hint}"
