"""``SOURCE``: the one argument that every verb takes, and what it may be.

The path of a known format (found by content), a fabric.yaml, either packed by gzip, ``-`` for stdin, a pipe, ``umad:DEVICE``, or the
name of a running fabric. Where a
file and a running fabric have the same name it is the file, and a notice says so (``./NAME`` and another directory tell
them apart). ``umad:DEVICE`` is a promise that this version does not keep: it says so in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softib.errors import InputError, UnreadableFile
from softib.fabric.formats.spool import STDIN, is_packed, named_again, plain_copy

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult
    from softib.live.instances import Instance

__all__ = ["load"]


def load(source: str, ibnl: Sequence[str | Path] = (), node_name_map: str | None = None) -> ReadResult:
    """Read ``source``. Raises :class:`InputError` and its kin, one line each, where it is nothing readable."""
    if source.startswith("umad:"):
        raise InputError(f"{source}: reading a live port is not in this version; give a file, e.g. of ibnetdiscover")
    if not source:
        raise InputError("SOURCE is empty; give the path of a file")
    path = Path(source)
    if source == STDIN or path.is_fifo() or (path.is_file() and is_packed(path)):
        beside = Path() if source == STDIN else path.parent
        with plain_copy(source) as copy:
            # What a file of this kind names, or looks for beside it, is beside the original.
            return _noted(source, named_again(_read(copy, [*ibnl, beside], node_name_map, beside), copy, source))
    instance = _running(source)
    if instance is not None and (path.is_dir() or not path.exists()):
        if ibnl or node_name_map:
            raise InputError(f"{source} is a running fabric: --ibnl and --node-name-map belong to files")
        from softib.live.snapshot import read

        return read(instance)
    if instance is not None:
        click.echo(f"softib: {source}: read from the file of that name, not from the running fabric", err=True)
    if path.is_dir():
        raise UnreadableFile(f"{source}: this is a directory; give a file")
    if not path.exists():
        raise UnreadableFile(_absent(source))
    return _noted(source, _read(path, ibnl, node_name_map))


def _noted(source: str, result: ReadResult) -> ReadResult:
    """``result``, after its reader's notes went to stderr."""
    for note in result.notes:
        click.echo(f"softib: {source}: {note}", err=True)
    return result


def _read(path: Path, ibnl: Sequence[str | Path], node_name_map: str | None, beside: Path | None = None) -> ReadResult:
    """Read a plain file. Names in a fabric.yaml are relative to ``beside`` (default: the file's directory)."""
    from softib.fabric.topologies import spec

    if spec.is_fabric_yaml(path):
        return spec.load_fabric_yaml(path, ibnl_dirs=ibnl, node_name_map=node_name_map, beside=beside)
    from softib.fabric.formats import registry

    return registry.read(path, ibnl_dirs=ibnl, node_name_map=node_name_map)


def _running(source: str) -> Instance | None:
    """The running fabric of that name, if there is one."""
    if "/" in source:
        return None
    return next((s for s in _here() if s.name == source), None)


def _here() -> list[Instance]:
    """Running fabrics; none where their directory cannot be used (which files do not care about)."""
    from softib.live.instances import running

    try:
        return running()
    except InputError:
        return []


def _absent(source: str) -> str:
    from softib.errors import nearest

    path = Path(source)
    near = nearest(path.name, [s.name for s in _here()]) if "/" not in source else []
    if near:
        return f"{source}: no such file, nor a running fabric; did you mean {', '.join(near)}?"
    if "/" not in source and "." not in source:
        return f"{source}: no such file, and no fabric of that name is running; 'softib status' lists them"
    try:
        beside = sorted(p.name for p in path.parent.iterdir())[:10_000]
    except OSError:
        return f"{source}: no such file, nor its directory"
    near = nearest(path.name, beside)
    hint = f"; did you mean {', '.join(str(path.parent / n) for n in near)}?" if near else ""
    return f"{source}: no such file{hint}"
