"""ibdm ``.topo`` files: systems by type and name, and the cables between their front panels.

A section begins with ``TYPE NAME [CFG: slot=modifier, …]``. The lines below it, ``port [-4x-5G]->
TYPE NAME port``, are cables. A cable may be listed in one of its two sections or in both. ibdm's
cable lists (``.cables``: ``TYPE NAME port TYPE NAME port``) have the same content without sections,
and are read too. Types are looked up in IBNL (:mod:`.ibnl`). Sources: the manual pages
ibdm-topo-file(1) and ibdm-ibnl-file(1), and comparisons with the stock library.

softib accepts the following, which ibdm rejects, and reports each case as a problem:

* A type without IBNL file: the system becomes one chip ``U1``. Labels ``P<n>`` and ``<n>`` are port
  numbers; other labels are numbered in natural order. The system is a switch if a system of its
  type begins a section or has more than two cables; otherwise it is a CA. A switch has as many
  ports as the highest port number of any system of its type.
* A line that cannot be parsed, an unknown port, or a port that is used twice: this line is skipped,
  the rest is kept. A comment line ``# speed: EDR`` is specific to softib: it sets the speed of the
  cables below it whose arrows state none (ibdm's arrows end at 10G), until ``# speed: unknown``.
  The default is 4x and 2.5 Gb/s (SDR), as in ibdm. These files have no GUIDs: node *i* gets the
  builder's *i*-th GUID, and the SystemImageGUID of all chips in a system is the GUID of its first
  chip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import UnreadableFile
from softib.fabric.formats import node_name_map as node_name_map_module
from softib.fabric.formats.base import Problem, Problems, ReadResult
from softib.fabric.formats.topo.build import TopoCable, TopoSystem, build_fabric
from softib.fabric.formats.topo.ibnl import ARROW, IbnlLibrary, parse_arrow
from softib.fabric.formats.topo.ibnl_expand import Template, expand, generic
from softib.iba.constants import MAX_SWITCH_PORTS, NodeType
from softib.iba.rates import SPEED_BY_NAME
from softib.input_files import content, shown_name, stem
from softib.natural_order import natural_key
from softib.plural import counted

__all__ = ["parse_topo", "read"]

_CABLE = re.compile(rf"^(?P<port>\S+?)\s*{ARROW}\s*(?P<type>[^\s>]+)\s+(?P<system>[^\s>]+)\s+(?P<peer_port>[^\s>]+)$")
_HEAD = re.compile(r"^(?P<type>[^\s=>]+)\s+(?P<name>[^\s=>]+)(?:\s+CFG\s*:\s*(?P<cfg>.*))?$")
_LISTED = re.compile(r"^([^\s=>]+)\s+([^\s=>]+)\s+([^\s=>]+)\s+([^\s=>]+)\s+([^\s=>]+)\s+([^\s=>]+)$")
_SPEED = re.compile(r"^\s*#\s*speed:\s*(\w+)\s*$")
_NUMBERED = re.compile(r"^[Pp]?0*([1-9]\d{0,2})$")


@dataclass
class _Parsed:
    """A file's records before the types of systems are resolved. ``systems`` are keyed by name, in
    the order in which they are first mentioned."""

    problems: Problems
    systems: dict[str, TopoSystem] = field(default_factory=dict)
    cables: list[TopoCable] = field(default_factory=list)


def read(path: str | Path, *, ibnl_dirs: Sequence[str | Path] = (), node_name_map: Any = None) -> ReadResult:
    """Read a ``.topo`` file. Raises :class:`UnreadableFile` if no record in it can be read.

    IBNL files are searched in ``ibnl_dirs``, then in the file's folder, then in the folders of
    installed ibutils.
    """
    got = content(path)
    text = got.data.decode("utf-8-sig", "replace")
    result = parse_topo(text, shown_name(path), ibnl_dirs=ibnl_dirs)
    if got.flaw:
        result.problems.append(Problem(shown_name(path), max(len(text.splitlines()), 1), got.flaw))
    if node_name_map is not None:
        result.problems += node_name_map_module.apply(result.fabric, node_name_map)
    return result


def parse_topo(text: str, file: str, *, ibnl_dirs: Sequence[str | Path] = ()) -> ReadResult:
    """Return the fabric that ``text``, the content of a ``.topo`` file, describes. ``file`` is the
    file's name, which problems state; IBNL files are also searched in its folder."""
    parsed = _parse_lines(text, file)
    if text and text[-1] not in "\r\n":
        parsed.problems.add(len(text.splitlines()), "the file ends within this line: it may be truncated")
    if not parsed.systems:
        raise UnreadableFile(f"{file}: contains no readable system and no line of the form 'port -> TYPE NAME port'")
    library = IbnlLibrary.search(ibnl_dirs, file=file)
    for system, template in _templates(parsed, library):
        system.template = template
    if not parsed.systems:
        raise UnreadableFile(f"{file}: contains neither a system of a known type nor a cable")
    fabric = build_fabric(parsed.systems, parsed.cables, stem(file), parsed.problems)
    fabric.source.format, fabric.source.path = "topo", file
    fabric.source.records = frozenset({"speeds"} if _all_speeds_stated(parsed) else ())
    cables = _system_links(parsed.cables)
    fabric.source.system_links = cables
    switches = int(fabric.sizes.switches)
    counts: dict[str, int | None] = {
        "switches": switches,
        "cas": fabric.sizes.nodes - switches,
        "sharp_nodes": 0,
        "links": fabric.sizes.cables,
        "system_links": cables,
    }
    problems = sorted(parsed.problems, key=lambda p: p.line)
    return ReadResult(
        fabric, [*problems, *library.problems], "topo", counts, {"ibnl_dirs": [str(d) for d in library.dirs]}
    )


def _all_speeds_stated(parsed: _Parsed) -> bool:
    """Return whether every link states its speed. If not, speeds are not recorded, so that no check
    reports a link with ibdm's default speed as slow."""
    inner = (speed for s in parsed.systems.values() for *_, speed in s.template.links)
    return all(c.speed for c in parsed.cables) and all(inner)


def _parse_lines(text: str, file: str) -> _Parsed:
    parsed = _Parsed(Problems(file))
    current: TopoSystem | None = None
    default = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            if speed_line := _SPEED.match(raw):
                default = speed_line.group(1) if speed_line.group(1) in SPEED_BY_NAME else ""
            continue
        match = _CABLE.match(line)
        if match:
            _cable(match, number, current, default, parsed)
        elif (head := _HEAD.match(line)) and ">" not in line:
            current = _section(head, number, parsed)
        elif listed := _LISTED.match(line):
            kind, name, port, peer_kind, peer_name, peer_port = listed.groups()
            ends = _mention(name, kind, number, parsed).name, _mention(peer_name, peer_kind, number, parsed).name
            parsed.cables.append(TopoCable(ends[0], port, ends[1], peer_port, 0, default, number))
        else:
            form = "'port -> TYPE NAME port'" if ">" in line else "'TYPE NAME [CFG: slot=modifier, …]'"
            parsed.problems.add(number, f"not {form}: {line[:60]!r}")
    return parsed


def _section(head: re.Match[str], number: int, parsed: _Parsed) -> TopoSystem:
    name, cfg = head.group("name"), {}
    for item in re.split(r"[\s,]+", head.group("cfg") or ""):
        slot, equals, modifier = item.partition("=")
        if item and (not equals or not slot or not modifier):
            parsed.problems.add(number, f"CFG item {item!r} is not slot=modifier")
        elif item:
            cfg[slot] = modifier
    system = _mention(name, head.group("type"), number, parsed)
    if system.modifiers and cfg and cfg != system.modifiers:
        parsed.problems.add(number, f"system {name} has another CFG at line {system.line}; that one is used")
    elif cfg:
        system.modifiers = cfg
    system.heads = True
    return system


def _mention(name: str, kind: str, number: int, parsed: _Parsed) -> TopoSystem:
    system = parsed.systems.get(name)
    if system is None:
        system = parsed.systems[name] = TopoSystem(name, kind, number)
    elif system.kind != kind:
        system.other_kinds.setdefault(kind, number)
    return system


def _cable(match: re.Match[str], number: int, current: TopoSystem | None, default: str, parsed: _Parsed) -> None:
    lanes, speed, wrong = parse_arrow(match)
    speed = speed or default
    if current is None:
        wrong = "a cable before any 'TYPE NAME' line: its system is unknown"
    if wrong or current is None:
        parsed.problems.add(number, wrong)
        return
    peer = _mention(match.group("system"), match.group("type"), number, parsed)
    parsed.cables.append(
        TopoCable(current.name, match.group("port"), peer.name, match.group("peer_port"), lanes, speed, number)
    )


def _system_links(cables: list[TopoCable]) -> int:
    """Return the number of cables between systems. Each pair of front-panel ports counts once;
    rejected lines do not count."""
    return len({frozenset(((c.a, c.a_port), (c.b, c.b_port))) for c in cables if c.usable})


def _templates(parsed: _Parsed, library: IbnlLibrary) -> list[tuple[TopoSystem, Template]]:
    """Return every system with its expanded description. Systems with the same type and CFG share
    one template."""
    cache: dict[tuple[str, tuple[tuple[str, str], ...]], Template] = {}
    unknown: dict[str, list[TopoSystem]] = {}
    out: list[tuple[TopoSystem, Template]] = []
    for system in parsed.systems.values():
        ibnl = library.find(system.kind)
        for kind, line in system.other_kinds.items():
            if ibnl is None or library.find(kind) is not ibnl:
                reason = (
                    f"system {system.name} is a {system.kind} at line {system.line}, here a {kind}; the first is used"
                )
                parsed.problems.add(line, reason)
        if ibnl is None or ibnl.top is None:
            unknown.setdefault(system.kind, []).append(system)
            continue
        key = (system.kind, tuple(sorted(system.modifiers.items())))
        if key not in cache:
            cache[key] = template = expand(ibnl, system.modifiers)
            library.problems += [Problem(ibnl.file, line, reason) for line, reason in template.problems]
        for slot in cache[key].unused_modifiers:
            parsed.problems.add(system.line, f"{system.kind} {system.name} has no slot {slot}")
        out.append((system, cache[key]))
    cabled = {name for c in parsed.cables for name in (c.a, c.b)}
    for kind, systems in unknown.items():
        for system in systems:
            if system.name not in cabled:
                # The line may be no section heading at all, because any two words look like one.
                parsed.problems.add(
                    system.line, f"no IBNL description of {kind}, and no cable of {system.name}: left out"
                )
                del parsed.systems[system.name]
        systems = [s for s in systems if s.name in cabled]
        if not systems:
            continue
        template = _generic(kind, systems, parsed, library)
        out += [(system, template) for system in systems]
    return out


def _generic(kind: str, systems: list[TopoSystem], parsed: _Parsed, library: IbnlLibrary) -> Template:
    names = {s.name for s in systems}
    ends = [e for c in parsed.cables for e in ((c.a, c.a_port), (c.b, c.b_port)) if e[0] in names]
    labels = sorted(sorted({label for _, label in ends}), key=natural_key)
    numbered = {label: m for label in labels if (m := _NUMBERED.match(label))}
    by_number = len(numbered) == len(labels)
    number = {x: int(numbered[x].group(1)) for x in labels} if by_number else {x: i for i, x in enumerate(labels, 1)}
    number = {label: n for label, n in number.items() if n <= MAX_SWITCH_PORTS}
    top = max(number.values(), default=1)
    is_ca = top <= 2 and not any(s.heads for s in systems)
    how = (
        f"port numbers are the labels {labels[0]} … {labels[-1]}"
        if by_number and labels
        else "labels numbered in natural order"
    )
    where = ", ".join(str(d) for d in library.dirs) or "no folder"
    kind_of = "adapter" if is_ca else "switch"
    parsed.problems.add(
        systems[0].line,
        f"no IBNL description of {kind} (searched in {where}); read as a one-chip {kind_of} of "
        f"{counted(top, 'port')}, {how}",
    )
    return generic(NodeType.CA if is_ca else NodeType.SWITCH, top, number)
