"""Table of all file formats: the reader, the writer, and the signature that identifies the content.

``read(path)`` detects the format from the content (never from the suffix); ``write(fabric, path)``
takes it from the suffix or from the name of a format. Modules are loaded when a format is first
used.

A fabric reader is ``function(path, *, ibnl_dirs, node_name_map) -> ReadResult``. A writer is
``function(fabric, path) -> list[str]``; it returns one note for each change that was needed for
other tools to load the file. Installed packages add readers through entry points of the group
``softib.readers``. Each is a :class:`Format` of kind ``fabric`` with the name of its entry point.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from softib.errors import InputError, UnknownFormat, UnknownName, UnreadableFile, nearest
from softib.extensions import blamed_on, extensions
from softib.fabric.formats.base import REPEATED, ReadResult, decoded
from softib.fabric.formats.other_dumps import named_dump
from softib.fabric.model import Fabric
from softib.input_files import head, nul_in, shown_name
from softib.plural import counted

__all__ = ["FORMATS", "READERS", "WRITERS", "Format", "detect", "formats", "read", "write", "writer_of"]

SNIFF_BYTES = 4 << 20
LIST_BYTES = 1 << 16
"""Number of bytes that are read to detect a format. Shell prompts and thousands of MAD errors may
precede the first record."""


@dataclass(frozen=True)
class Format:
    """A file format: name, signature, reader and writer. ``what`` completes "this file is …".
    ``kind`` is the content: ``fabric`` (read with :func:`read`), ``counters``
    (``counters_text.read_counters``), ``plan`` (``cabling.read_plan``), ``lfts``
    (``lft_dump.read_lfts``) or ``names``."""

    name: str
    kind: str
    what: str
    signature: str
    """Regular expression (bytes, multi-line) for a record that only this format has."""
    reader: str = ""
    writer: str = ""
    suffixes: tuple[str, ...] = ()
    package: str = ""
    """The installed package that contains the reader; empty for softib's formats."""


COUNTERS = (
    r"^(?:Port=\d{1,3} Lid=0x[0-9a-fA-F]{1,4} GUID=0x|# Port[\w ]{0,60} counters: Lid \d{1,5} port \d"
    r"|[ \t]+GUID 0x[0-9a-fA-F]{1,16} port (?:\d{1,3}|ALL):)"
)
_HERE = "softib.fabric.formats."

FORMATS: tuple[Format, ...] = (
    # The first format whose signature matches is used, so strict signatures come before loose ones.
    Format(
        "db_csv",
        "fabric",
        "an ibdiagnet2 .db_csv",
        r"^START_(?:NODES|PORTS|LINKS|RUN_INFO|SM_INFO)[ \t]*\r?$",
        _HERE + "ibdiagnet.db_csv:read",
    ),
    Format(
        "lst",
        "fabric",
        "an ibdiagnet .lst",
        r"^[ \t]*\{[ \t]*(?:CA|SW|RT)(?:-\w+)?[ \t]+Ports:[0-9A-Fa-f]+[ \t]",
        _HERE + "ibdiagnet.lst:read",
    ),
    Format(
        "iblinkinfo",
        "fabric",
        "what iblinkinfo prints",
        r"^[^\n]{0,200}\d{1,3}\[[^\]\n]{0,6}\] ==\(",
        _HERE + "iblinkinfo:read",
    ),
    Format(
        "net_dump",
        "fabric",
        "an ibdiagnet2.net_dump",
        r"(?i)^[ \t#:\w]{0,200}: *Neighbor Guid *:",
        _HERE + "ibdiagnet.net_dump:read",
    ),
    Format(
        "lfts",
        "lfts",
        "a dump of forwarding tables",
        r"^(?:Unicast lids \[|osm_ucast_mgr_dump_ucast_routes: Switch|[^\n]{0,80}Switch 0x[0-9a-fA-F]{1,16}[ "
        r"\t]*\r?\nLID[ \t]*:"
        r"|\d{1,6}:(?:[ \t]+\d{1,3}){3})",
        _HERE + "lft.dump:read_lfts",
        _HERE + "lft.dump:write_fabric_lfts",
        (".lft", ".lfts"),
    ),
    Format(
        "counters",
        "counters",
        "a list of counters (.pm of ibdiagnet, perfquery, ibqueryerrors)",
        COUNTERS,
        _HERE + "counters_text:read_counters",
    ),
    Format(
        "ndt",
        "plan",
        "a UFM-NDT cabling list",
        r"(?i)^[^\n]{0,200}\bStartDevice\b[^\n]{0,200}\bEndDevice\b",
        _HERE + "cabling.plan:read_plan",
    ),
    Format(
        "p2p",
        "plan",
        "a point-to-point cabling sheet",
        r"(?i)^[^\n]{0,200}\bA[-_ ]?(?:Rack|Node|Port)\b[^\n]{0,400}\bZ[-_ ]?(?:Rack|Node|Port)\b",
        _HERE + "cabling.plan:read_plan",
    ),
    Format(
        "ibnetdiscover",
        "fabric",
        "an ibnetdiscover dump",
        r"^[ \t]*(?:(?:switchguid|caguid|rtguid)[ \t]*=|(?:Switch|Ca|Hca|Rt)[ \t]*\d+[ \t]*\"[SHR]-[0-9a-fA-F]{8,16}\""
        r"|(?:CA|SW|RT)[ \t]+(?:\d+[ \t]+)?\d+[ \t]+0x[0-9a-fA-F]{1,16}[ \t]+\d+x[ \t])",
        _HERE + "ibnetdiscover.reader:read",
        _HERE + "ibnetdiscover.writer:write",
        (".ibnetdiscover",),
    ),
    Format(
        "ibsim",
        "fabric",
        "an ibsim netlist",
        r"^[ \t]*(?i:switch|ca|hca|rt|router)[ \t]*\d+[ \t]*\"[^\"\n]{1,200}\"",
        _HERE + "ibnetdiscover.reader:read",
        _HERE + "ibnetdiscover.writer:write_ibsim",
        (".net",),
    ),
    Format(
        "topo",
        "fabric",
        "an ibdm .topo",
        r"^[ \t]+\S+[ \t]+-(?:[ \t]*[\w.]+[ \t]*-)*>[ \t]+\S+[ \t]+\S+[ \t]+\S+"
        r"|^[ \t]*(?:[\w.-]+[ \t]+[\w.-]+[ \t]+[\w./-]*P\d+[ \t]*){2}\r?$",
        _HERE + "topo.reader:read",
        _HERE + "topo.writer:write",
        (".topo",),
    ),
    Format(
        "node-name-map",
        "names",
        "a node-name-map",
        r"^[ \t]*0x[0-9a-fA-F]{1,16}[ \t]+\"[^\"\n]+\"[ \t]*(?:#[^\n]*)?\r?$",
        _HERE + "node_name_map:read",
    ),
    Format("slurm", "none", "a Slurm topology.conf", r"^SwitchName=\S+", "", _HERE + "slurm:write", ("topology.conf",)),
    Format("slurm-block", "none", "a topology.conf of blocks", r"^BlockName=\S+", "", _HERE + "slurm:write_blocks"),
    Format("kubernetes", "none", "labels of Kubernetes nodes", r"\"kind\": \"Node\"", "", _HERE + "kubernetes:write"),
    Format("graphml", "none", "a GraphML drawing", r"<graphml\b", "", _HERE + "graphml:write", (".graphml",)),
)

READERS: dict[str, str] = {f.name: f.reader for f in FORMATS if f.reader and f.kind == "fabric"}
WRITERS: dict[str, str] = {f.name: f.writer for f in FORMATS if f.writer}

_USE = {
    "counters": "softib diagnose reads two of them with --fabric FABRIC, softib.observe with fabric=",
    "plan": "use it as a plan (--plan)",
    "lfts": "use it as forwarding tables (--lfts) of a fabric",
    "names": "use it as a node-name-map of a fabric",
    "none": "softib writes this format but does not read it",
}


def load(target: str) -> Callable[..., Any]:
    """Load the function that ``target`` names as ``"module:function"``."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


@cache
def formats() -> tuple[Format, ...]:
    """Return all formats, softib's first. Warns about entry points that cannot be used."""
    installed = extensions("softib.readers", {f.name for f in FORMATS}, _check_format)
    return (*FORMATS, *(replace(one.value, package=one.package) for one in installed.values()))


def _check_format(name: str, value: Any) -> None:
    """Raise :class:`InputError` if ``value`` is not a :class:`Format` that can be read and has the
    name ``name``."""
    if not isinstance(value, Format) or value.kind != "fabric":
        raise InputError("the entry point is not a softib.fabric.formats.registry.Format of kind fabric")
    if value.name != name:
        raise InputError(f"its format is called {value.name!r}; call it {name!r}")
    if value.writer:
        raise InputError("the format has a writer, but packages can add only readers; leave the writer empty")
    re.compile(value.signature.encode(), re.MULTILINE)
    if not callable(load(value.reader)):
        raise InputError(f"its reader {value.reader} is not a function")


def sniff(path: Path) -> bytes:
    """Return the decoded beginning of a file. Raises :class:`UnreadableFile` with the system's
    error text."""
    return decoded(head(path, SNIFF_BYTES))


def detect(path: str | Path, *, among: Iterable[str] = ()) -> Format:
    """Return the format whose signature matches the file. ``among`` lists the kinds that are
    considered.

    Raises :class:`UnreadableFile` if the file does not exist or is empty, and
    :class:`UnknownFormat`.
    """
    start, name = sniff(Path(path)), shown_name(path)
    if not start.strip():
        raise UnreadableFile(f"{name}: the file is empty")
    if start.startswith(b"PK\x03\x04"):
        raise UnknownFormat(f"{name}: this is an Excel workbook, not a fabric; use it as a plan (--plan)")
    if nul_in(start) >= 0:
        raise UnknownFormat(f"{name}: binary data (a NUL byte); fabric files are text, use the text output of a tool")
    kinds = tuple(among)
    for row in formats():
        if (not kinds or row.kind in kinds) and re.search(row.signature.encode(), start, re.MULTILINE):
            return row
    if other := named_dump(start):
        raise UnknownFormat(f"{name}: this is {other.what}, {other.lacks}; {other.instead}")
    from softib.fabric.formats.cabling.sheet import sheets_of_text

    if sheets_of_text(start[:LIST_BYTES].decode("utf-8", "replace")).layout is not None:
        raise UnknownFormat(f"{name}: this is a cabling list, not a fabric; {_USE['plan']}")
    names = ", ".join(f.name for f in formats() if (f.reader and (not kinds or f.kind in kinds)))
    raise UnknownFormat(f"{name}: the content is of no known format; softib reads {names}")


def read(
    path: str | Path,
    *,
    ibnl_dirs: Iterable[str | Path] = (),
    node_name_map: Any = None,
    counters: Iterable[str | Path] = (),
) -> ReadResult:
    """Read a fabric from a file of any known format; ``-`` is standard input, and gzip, bzip2 and
    xz are unpacked. ``node_name_map`` is a path, or ``{node_guid: name}``. ``counters`` are files
    for :mod:`softib.fabric.formats.counters_text`; their counters replace those of the fabric file.
    Raises :class:`UnreadableFile` if the file or all of its records cannot be read, and
    :class:`UnknownFormat`. A record that cannot be read is a ``Problem`` of the result.
    """
    path = Path(path)
    row = detect(path)
    if row.kind != "fabric":
        raise UnknownFormat(f"{shown_name(path)}: this is {row.what}, not a fabric; {_USE[row.kind]}")
    with blamed_on(row.package, f"reader of {row.name}") if row.package else nullcontext():
        result: ReadResult = load(row.reader)(path, ibnl_dirs=tuple(ibnl_dirs), node_name_map=node_name_map)
        if not isinstance(result, ReadResult):
            raise TypeError(f"the reader returned {type(result).__name__}, not ReadResult")
    _refuse_noise(path, row, result)
    for listing in counters:
        result.problems += load(_HERE + "counters_text:read_counters")(listing, result.fabric)
    return result


def _refuse_noise(path: Path, row: Format, result: ReadResult) -> None:
    """Raise :class:`UnknownFormat` if the number of lines that could not be read is larger than the
    number of nodes and cables: the detected format is then wrong. Repeated records could be
    read."""
    failed = len({p.line for p in result.problems if p.line and REPEATED not in p.reason})
    read = result.fabric.sizes.nodes + result.fabric.sizes.cables
    if failed > read:
        first = min((p for p in result.problems if p.line), key=lambda p: p.line)
        raise UnknownFormat(
            f"{shown_name(path)}: looked like {row.what}, but {counted(failed, 'line')} cannot be read, and only "
            f"{counted(read, 'node')} and cables can; line {first.line}: {first.reason}"
        )


def write(fabric: Fabric, path: str | Path, format: str | None = None) -> list[str]:
    """Write ``fabric`` in the format called ``format``, by default the one that the suffix selects.
    Returns notes on changes. Raises :class:`InputError` if the path cannot be written; an existing
    file is then unchanged.
    """
    path = Path(path)
    row = writer_of(path, format)
    notes: list[str] = load(row.writer)(fabric, path)
    return notes


def writer_of(path: Path, format: str | None = None) -> Format:
    """Return the format called ``format``, by default the one that the suffix of ``path`` selects.
    Raises :class:`UnknownFormat` or :class:`UnknownName`."""
    writers = [f for f in FORMATS if f.writer]
    if format is not None:
        for row in writers:
            if row.name == format:
                return row
        raise UnknownName("format to write", format, WRITERS)
    for row in writers:
        if any(path.name.endswith(s) for s in row.suffixes):
            return row
    suffixes = [s for row in writers for s in row.suffixes]
    similar = nearest(path.suffix, suffixes)
    hint = f"did you mean {', '.join(similar)}?" if similar else f"use one of {', '.join(suffixes)}, or name the format"
    raise UnknownFormat(f"{path.name}: no format has this suffix; {hint}")
