"""``SOURCE``: the one argument that every verb takes, and what it may be.

The path of a known format (found by content), a fabric.yaml, ``umad:DEVICE``, or the name of a running fabric. The last
two are promises of the command line that this version does not keep: it says so in one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError, UnreadableFile

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult

__all__ = ["load"]

YAML_SUFFIXES = (".yaml", ".yml")
YAML_HEAD = re.compile(rb"^(?:topology|import)[ \t]*:", re.MULTILINE)
"""A fabric.yaml has one of the two at its top level; no other format has such a line."""


def load(source: str, ibnl: Sequence[str | Path] = (), node_name_map: str | None = None) -> ReadResult:
    """Read ``source``. Raises :class:`InputError` and its kin, one line each, where it is nothing readable."""
    if source.startswith("umad:"):
        raise InputError(f"{source}: reading a live port is not in this version; give a file, e.g. of ibnetdiscover")
    path = Path(source)
    if path.is_dir():
        raise UnreadableFile(f"{source}: this is a directory; give a file")
    if not path.exists():
        raise UnreadableFile(_absent(source))
    if is_fabric_yaml(path):
        from softib.fabric.topologies import spec

        return spec.load_fabric_yaml(path)
    from softib.fabric.formats import registry

    return registry.read(path, ibnl_dirs=ibnl, node_name_map=node_name_map)


def is_fabric_yaml(path: Path) -> bool:
    """True for a YAML suffix, or a top-level ``topology:`` or ``import:`` in the first 64 KiB."""
    if path.suffix.lower() in YAML_SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            return YAML_HEAD.search(file.read(1 << 16)) is not None
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from None


def _absent(source: str) -> str:
    from softib.errors import nearest

    path = Path(source)
    if "/" not in source and "." not in source:
        return f"{source}: no such file, and no fabric of this name is running (this version runs none); give a file"
    try:
        beside = sorted(p.name for p in path.parent.iterdir())[:10_000]
    except OSError:
        return f"{source}: no such file, nor its directory"
    near = nearest(path.name, beside)
    hint = f"; did you mean {', '.join(str(path.parent / n) for n in near)}?" if near else ""
    return f"{source}: no such file{hint}"
