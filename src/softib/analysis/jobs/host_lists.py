"""Lists of hosts: a file with one a line (as mpirun and pdsh read them), or text as Slurm writes
it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from softib.analysis.jobs.files import expand_hostlist
from softib.errors import InputError, UnreadableFile
from softib.input_files import read_text

__all__ = ["read_hosts"]


def read_hosts(given: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Names, each once, in order: of a sequence, of a file (the first word of each line; ``#``
    begins a comment; ``host:8`` and ``host slots=8`` are the host), or of ``node[001-016],login``.
    Raises :class:`UnreadableFile` and :class:`InputError` in one line."""
    if not isinstance(given, str | os.PathLike):
        texts = [str(t) for t in given]
    elif os.path.isfile(given):
        texts = _lines(Path(given))
    elif isinstance(given, str) and given.strip() and "/" not in given:
        texts = [given]
    else:
        raise UnreadableFile(f"{os.fspath(given)!r}: no file of hosts, and no list such as node[001-016]")
    hosts = list(dict.fromkeys(h for t in texts for h in expand_hostlist(t)))
    if not hosts:
        raise InputError(f"{given if isinstance(given, str | os.PathLike) else 'hosts'}: no host in it")
    odd = next(
        (h for h in hosts if h.startswith("-") or not h.isprintable() or any(c in h for c in " \t;|&$`<>'\"\\")), None
    )
    if odd is not None:
        raise InputError(f"{odd[:60]!r} is no name of a host")
    return hosts


def _lines(path: Path) -> list[str]:
    first = [line.partition("#")[0].split() for line in read_text(path, "list of hosts").splitlines()]
    return [fields[0].partition(":")[0] for fields in first if fields]
