"""``SOURCE``: the one argument that every verb takes, and its possible forms.

The path of a known format (found by content), a fabric.yaml, either of them compressed, ``-`` for
standard input, a FIFO, ``umad:DEVICE`` (the subnet behind that port, read only by Gets; ``umad:``
is the first port that is up), or the name of a running fabric. If a file and a running fabric have the same name,
the file is used, and a notice reports it (``./NAME`` and another directory name only the file).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError, SoftibWarning, UnreadableFile
from softib.input_files import is_stdin, release, shown_name

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult
    from softib.live.instances import Instance

__all__ = ["load", "warn"]


def warn(text: str) -> None:
    """Issue a notice as a Python warning (:class:`SoftibWarning`)."""
    warnings.warn(text, SoftibWarning, stacklevel=3)


def load(
    source: str,
    ibnl: Sequence[str | Path] = (),
    node_name_map: str | None = None,
    *,
    notice: Callable[[str], None] = warn,
    progress: Callable[[str], None] = lambda line: None,
) -> ReadResult:
    """Read ``source``. ``progress`` is called with a line from time to time while a subnet is read. ``notice`` is
    called with remarks that are not errors, one line each: parts of a file that are not used (also in ``notes`` of the
    result), or that a file was read instead of a running fabric with its name.

    Raises :class:`InputError` or a related error, one line each, if it is not readable.
    """
    if source.startswith("umad:"):
        if ibnl:
            raise InputError(f"{source} is a subnet, but --ibnl applies only to files; leave out --ibnl")
        return _subnet(source, node_name_map, notice, progress)
    if not source:
        raise InputError("SOURCE is empty; give the path of a file")
    path = Path(source)
    instance = None if is_stdin(source) else _running(source)
    if instance is not None and (path.is_dir() or not path.exists()):
        if ibnl or node_name_map:
            raise InputError(
                f"{source} is a running fabric, but --ibnl and --node-name-map apply only to files; leave them out"
            )
        from softib.live.snapshot import read

        return read(instance)
    if instance is not None:
        notice(f"{source}: this is the file of that name, not the running fabric")
    if path.is_dir():
        raise UnreadableFile(f"{source}: this is a directory; give a file")
    if not is_stdin(source) and not path.exists():
        raise UnreadableFile(_absent(source))
    try:
        result = _read(path, ibnl, node_name_map)
    finally:
        release(path)
    for note in result.notes:
        notice(f"{shown_name(source)}: {note}")
    return result


def _subnet(
    source: str, node_name_map: str | None, notice: Callable[[str], None], progress: Callable[[str], None]
) -> ReadResult:
    """Return the subnet behind a umad device."""
    from softib.fabric.formats.resolve import named
    from softib.live.subnet_reader import read

    result = read(source, lambda phase, nodes, mads: progress(f"{phase}: {nodes} nodes, {mads} MADs"))
    for note in result.notes:
        notice(f"{source}: {note}")
    return named(result, node_name_map)


def _read(path: Path, ibnl: Sequence[str | Path], node_name_map: str | None) -> ReadResult:
    from softib.fabric.topologies import spec

    if spec.is_fabric_yaml(path):
        return spec.load_fabric_yaml(path, ibnl_dirs=ibnl, node_name_map=node_name_map)
    from softib.fabric.formats import registry

    return registry.read(path, ibnl_dirs=ibnl, node_name_map=node_name_map)


def _running(source: str) -> Instance | None:
    """Return the running fabric of that name, if there is one."""
    if "/" in source:
        return None
    return next((s for s in _here() if s.name == source), None)


def _here() -> list[Instance]:
    """Return running fabrics; none if their directory cannot be used (which does not matter for
    files)."""
    from softib.live.instances import running

    try:
        return running()
    except InputError:
        return []


def _absent(source: str) -> str:
    from softib.errors import nearest

    path = Path(source)
    similar = nearest(path.name, [s.name for s in _here()]) if "/" not in source else []
    if similar:
        return f"{source}: no such file, nor a running fabric; did you mean {', '.join(similar)}?"
    if "/" not in source and "." not in source:
        return f"{source}: no such file, and no fabric of that name is running; 'softib status' lists them"
    try:
        siblings = sorted(p.name for p in path.parent.iterdir())[:10_000]
    except OSError:
        hint = "; examples are in the folder of softib's source" if path.parts[0] == "examples" else ""
        return f"{source}: no such file, nor its directory{hint}"
    similar = nearest(path.name, siblings)
    hint = f"; did you mean {', '.join(str(path.parent / n) for n in similar)}?" if similar else ""
    return f"{source}: no such file{hint}"
