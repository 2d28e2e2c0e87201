"""Write ``.topo`` files and, in the same folder, the IBNL descriptions of their system types. Types
are generic and contain only data of the fabric. ``SW36-MT52000-EDR`` is one switch chip with
DeviceID 52000 and 36 ports labelled P1 … P36; ``CA2-…`` is an adapter. Any other system (several
chips, or other labels) gets a type ``NAME-SYS1``, ``NAME-SYS2`` …, where NAME is the file's stem;
systems of the same structure have the same type. :func:`softib.fabric.formats.topo.reader.read`
finds the descriptions in the file's folder; ibdm finds them with ``IBDM_IBNL_PATH=DIR``. Types do
not have names of real products, since the fabric may consist of others.

ibdm (ibutils 1.5.7) ignores a cable line with a speed beyond 10G, a comment, or 2x; a note states
each. So FDR10 and faster speeds are written in a comment line before the cables, ``# speed: EDR``,
and inside systems in an attribute, ``leaf1/U1=speed=EDR``. ibdm ignores both; softib's reader uses
them.

A node called ``SYSTEM/part`` is written as chip ``part`` of system SYSTEM if the fabric records
this (``node_system``). Any other node is a separate system with one chip ``U1``. Characters that
ibdm's grammar does not allow are removed from names, and names that are not unique get the GUID
appended; a note states each change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softib.fabric.formats.topo.ibnl import SPEED_OF_G
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, SPEEDS
from softib.iba.smp import PortInfo
from softib.whole_files import write_text

__all__ = ["write"]

_BAD = re.compile(r"[^A-Za-z0-9_.%@~/-]")
"""Characters that are replaced. ibdm's NAME allows more of them, but its Tcl shell splits names at
':', and its reports treat brackets as patterns."""
_IBDM_G = {name: g for g, name in SPEED_OF_G.items() if g in ("2.5", "5", "10")}


@dataclass
class _System:
    """A system. ``chips`` are (path, node), ``labels`` its front-panel ports, and ``inner`` the
    cables between its chips."""

    name: str
    chips: list[tuple[str, int]] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    kind: str = ""


def write(fabric: Fabric, path: str | Path) -> list[str]:
    """Write ``fabric`` to ``path``, and the ``.ibnl`` files to the same folder. Returns notes on
    changes, and on the environment variable that ibdm needs."""
    path = Path(path)
    notes: list[str] = []
    systems, of_node = _systems(fabric, notes)
    arrows = _arrows(fabric)
    outer: list[int] = []
    for cable, (a, b) in enumerate(fabric.cable_port.tolist()):
        if a < 0 or b < 0:
            known_end = fabric.port_name(a if a >= 0 else b)
            notes.append(f"the cable in {known_end} is omitted: its other end is unknown, and a .topo file needs both")
        elif a == b:
            notes.append(f"the cable from {fabric.port_name(a)} to itself is omitted: ibdm does not support it")
        elif of_node[fabric.port_node[a]] == of_node[fabric.port_node[b]]:
            systems[of_node[fabric.port_node[a]]].inner.append(cable)
        else:
            outer.append(cable)
    for system in systems:
        _label(fabric, system, notes)
    if any(arrow.startswith("-2x") for arrow, _ in arrows):
        notes.append(
            "2x cables are written as -2x->: ibdm (ibutils 1.5.7) supports only 4x, 8x and 12x and ignores them"
        )
    files = _types(fabric, systems, arrows, path.stem)
    for name, text in files.items():
        write_text(path.parent / f"{name}.ibnl", text)
    write_text(path, _topo(fabric, systems, of_node, outer, arrows))
    if files:
        here = path.parent.resolve()
        notes.append(
            f"wrote {', '.join(f'{n}.ibnl' for n in files)} in the same folder; ibdm finds them with "
            f"IBDM_IBNL_PATH={here}"
        )
    return notes


def _systems(fabric: Fabric, notes: list[str]) -> tuple[list[_System], np.ndarray]:
    """Return the systems, ordered by their first node, and the system of every node."""
    of_node = np.zeros(fabric.sizes.nodes, np.int64)
    systems: list[_System] = []
    by_name: dict[str, int] = {}
    for node, desc in enumerate(fabric.node_names()):
        chassis, part = fabric.node_system.get(node, ""), "U1"
        if chassis and desc.startswith(f"{chassis}/"):
            part = desc[len(chassis) + 1 :]
        else:
            chassis = desc.removesuffix("/U1")
        name, part = _BAD.sub("_", chassis), _BAD.sub("_", part)
        at = by_name.get(name)
        if at is not None and any(p == part for p, _ in systems[at].chips):
            name, at = f"{name}.{int(fabric.node_guid[node]):016x}", None
            if name in by_name:
                name = f"{name}.{node}"
        if at is None:
            at = by_name[name] = len(systems)
            systems.append(_System(name))
        if f"{name}/{part}" != desc and name != desc:
            notes.append(f"node {desc!r} is written as {name}/{part}")
        systems[at].chips.append((part, node))
        of_node[node] = at
    return systems, of_node


def _arrows(fabric: Fabric) -> list[tuple[str, str]]:
    """Return, for each cable, its arrow, and its speed if ibdm's arrows cannot express it ("" if
    they can, or if the speed is unknown)."""
    port = np.maximum(fabric.cable_port[:, 0], 0)
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)[port] if len(port) else port
    width = PortInfo.link_width_active.get(fabric.port_info)[port] if len(port) else port
    out = []
    for code, bit in zip(codes.tolist(), width.tolist(), strict=True):
        lanes = LANES_BY_BIT.get(bit, 4)
        speed = SPEED_BY_CODE[code].name if code else ""
        g = _IBDM_G.get(speed)
        out.append((f"-{lanes}x-{g}G->" if g else f"-{lanes}x->", "" if g else speed))
    return out


def supported_speed(fabric: Fabric) -> list[str]:
    """Return, for each node, the fastest speed that any of its ports supports."""
    info, best = fabric.port_info, np.zeros(fabric.sizes.ports, np.int64)
    for s in SPEEDS:
        bits = (
            (PortInfo.link_speed_supported, s.speed_bit),
            (PortInfo.link_speed_ext_supported, s.ext_bit),
            (PortInfo.link_speed_ext2_supported, s.ext2_bit),
        )
        for column, bit in bits:
            if bit and not s.mlnx_bit:
                best[(column.get(info) & bit) > 0] = s.code
        if s.mlnx_bit:
            best[(fabric.port_mlnx_speed[:, 0] & s.mlnx_bit) > 0] = s.code
    top = np.ones(fabric.sizes.nodes, np.int64)
    np.maximum.at(top, fabric.port_node, best)
    return [SPEED_BY_CODE[c].name for c in top.tolist()]


def _label(fabric: Fabric, system: _System, notes: list[str]) -> None:
    """Write the front-panel labels of all ports. The fabric's labels are used if ibdm's grammar
    allows them and they are distinct."""
    alone = len(system.chips) == 1
    taken: set[str] = set()
    for part, node in system.chips:
        for port in fabric.ports_of(node):
            text = fabric.port_label.get(port, "")
            number = f"P{int(fabric.port_num[port])}"
            label = (
                text
                if text and not _BAD.search(text) and not text.isdigit()
                else number
                if alone
                else f"{part}/{number}"
            )
            if label in taken:
                notes.append(
                    f"port label {text!r} of {fabric.port_name(port)} exists twice; written as {part}/{number}"
                )
                label = f"{part}/{number}"
            taken.add(label)
            system.labels[port] = label


def _types(fabric: Fabric, systems: list[_System], arrows: list[tuple[str, str]], stem: str) -> dict[str, str]:
    """Set the type of every system. Return the IBNL text of each type."""
    stem = _BAD.sub("_", stem).replace("/", "_")
    speeds = supported_speed(fabric)
    body_type: dict[str, str] = {}
    custom = 0
    for system in systems:
        body = _body(fabric, system, arrows, speeds)
        if body not in body_type:
            part, node = system.chips[0]
            plain = [f"P{i}" for i in range(1, int(fabric.node_nports[node]) + 1)]
            if part == "U1" and len(system.chips) == 1 and not system.inner and list(system.labels.values()) == plain:
                body_type[body] = "-".join((_kind(fabric, node), _device(fabric, node), speeds[node]))
            else:
                custom += 1
                body_type[body] = f"{stem}-SYS{custom}"
        system.kind = body_type[body]
    # The text has no comments, because ibdm's grammar for system files does not allow them.
    return {kind: f"TOPSYSTEM {kind}\n\n{body}" for body, kind in body_type.items()}


def _kind(fabric: Fabric, node: int) -> str:
    return f"{'SW' if fabric.node_type[node] == NodeType.SWITCH else 'CA'}{int(fabric.node_nports[node])}"


def _device(fabric: Fabric, node: int) -> str:
    return f"MT{int(fabric.device_id[node]):05d}"


def _body(fabric: Fabric, system: _System, arrows: list[tuple[str, str]], speeds: list[str]) -> str:
    part_of = {node: part for part, node in system.chips}
    wired: dict[int, str] = {}
    for cable in system.inner:
        a, b = fabric.cable_port[cable].tolist()
        for p, q in ((a, b), (b, a)):
            wired[p] = f"{arrows[cable][0]} {part_of[int(fabric.port_node[q])]} {int(fabric.port_num[q])}"
    lines = [f"{part}=speed={speeds[node]}" for part, node in system.chips]
    for part, node in system.chips:
        kind = "SW" if fabric.node_type[node] == NodeType.SWITCH else "CA"
        lines.append(f"\nNODE {kind} {int(fabric.node_nports[node])} {_device(fabric, node)} {part}")
        for port in fabric.ports_of(node):
            lines.append(f"   {int(fabric.port_num[port])} {wired.get(port, '-> ' + system.labels[port])}")
    return "\n".join(lines) + "\n"


def _topo(
    fabric: Fabric, systems: list[_System], of_node: np.ndarray, outer: list[int], arrows: list[tuple[str, str]]
) -> str:
    sections: list[list[tuple[str, str]]] = [[] for _ in systems]
    is_switch = fabric.is_switch
    for cable in outer:
        a, b = fabric.cable_port[cable].tolist()
        if is_switch[fabric.port_node[b]] and not is_switch[fabric.port_node[a]]:
            a, b = b, a
        local, peer = systems[of_node[fabric.port_node[a]]], systems[of_node[fabric.port_node[b]]]
        arrow, speed = arrows[cable]
        text = f"   {local.labels[a]} {arrow} {peer.kind} {peer.name} {peer.labels[b]}"
        sections[of_node[fabric.port_node[a]]].append((text, "" if "G->" in arrow else speed or "unknown"))
    ends = fabric.cable_port[outer] if outer else np.zeros((0, 2), np.int64)
    mentioned = set(of_node[fabric.port_node[ends]].ravel().tolist())
    out, now = ["# written by softib"], "unknown"
    for i, (system, lines) in enumerate(zip(systems, sections, strict=True)):
        if lines or i not in mentioned:
            out += ["", f"{system.kind} {system.name}"]
        for text, speed in lines:
            if speed and speed != now:
                out.append(f"# speed: {speed}")
                now = speed
            out.append(text)
    return "\n".join(out) + "\n"
