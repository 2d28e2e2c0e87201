"""Sections of a .db_csv with device properties and subnet manager settings: PORTS,
SWITCHES, SM_INFO, PKEY …

One function per section. A device with an illegal value (for example MTUCap 0 on a port that
carries packets) would reject every Set from a subnet manager. So an illegal value is reported as a
problem of its line, and the component keeps its power-up value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from softib.fabric.formats.ibdiagnet.csv_sections import Legal, Section, SectionWriter
from softib.fabric.formats.ibdiagnet.db_csv_columns import PORT_INFO, SPEEDS, SWITCH_INFO, split_speeds
from softib.iba.constants import PortState
from softib.iba.rates import WIDTH_BITS
from softib.iba.smp import PortInfo, SwitchInfo

__all__ = ["extended_port_info", "pkeys", "port_labels", "ports", "sms", "switches"]

_ENUM_MAX = 5
"""Largest code of an MTU (4096 bytes), and of VLCap (VL0-14) (IBA 14.2.5.6)."""
PKEYS_MAX = 4096
"""Maximum length of a P_Key table that softib supports. The longest in a real device has 256
entries."""
_WIDTHS = sum(WIDTH_BITS.values())


def _legal(bits: int, values: Iterable[int], zero: np.ndarray | bool = False) -> Legal:
    """Return a table of legal values: ``values``, and 0 in the rows of ``zero``."""
    table = np.zeros(1 << bits, bool)
    table[list(values)] = True
    return table, zero


def _legal_values(writer: SectionWriter, port: np.ndarray) -> dict[str, Legal]:
    """Return the table of legal values of each component. Base port 0 has no link, so components
    that describe a link may be 0 there."""
    port0 = writer.f.port_num[port] == 0
    unlinked = port0 | ~writer.f.linked[port]
    codes = range(1, _ENUM_MAX + 1)
    return {
        "mtu_cap": _legal(4, codes, port0),
        "vl_cap": _legal(4, codes, port0),
        "neighbor_mtu": _legal(4, codes, unlinked),
        "operational_vls": _legal(4, codes, unlinked),
        "link_width_supported": _legal(8, [b for b in range(1, 256) if not b & ~_WIDTHS], port0),
        "link_width_active": _legal(8, list(WIDTH_BITS.values()), unlinked),
        # Base port 0 of some switches reports PortState 0 (NoChange).
        "guid_cap": _legal(8, range(1, 256), writer.f.is_switch[writer.f.port_node[port]] & ~port0),
        "port_state": _legal(4, (int(s) for s in PortState if s)),
    }


def ports(writer: SectionWriter, s: Section) -> None:
    """Read PORTS: all components of PortInfo."""
    rows, port = writer.ports(s)
    legal = _legal_values(writer, port)
    info, quiet = writer.f.port_info, s.column("PortState", writer.problems)[rows] == 0 if s.has("PortState") else None
    for name, target in PORT_INFO.items():
        if not s.has(name):
            continue
        take = ~quiet if target == "port_state" and quiet is not None else np.ones(len(rows), bool)
        allowed = legal.get(target)
        if allowed is not None and isinstance(allowed[1], np.ndarray):
            allowed = allowed[0], allowed[1][take]
        writer.write(s, name, getattr(PortInfo, target), info, rows[take], port[take], allowed)
    for name, targets in SPEEDS.items():
        if s.has(name):
            _speeds(writer, s, name, targets, rows, port)
    if s.has("PortGuid"):
        _port_guids(writer, s.column("PortGuid", writer.problems, np.uint64)[rows], port)
    _recorded(writer, s, port)


def _recorded(writer: SectionWriter, s: Section, port: np.ndarray) -> None:
    for record, names in {
        "lids": ("LID",),
        "lmcs": ("LMC",),
        "states": ("PortState",),
        "speeds": ("LinkSpeedActv",),
        "capabilities": ("LinkSpeedSup", "LinkWidthSup"),
    }.items():
        if s.has(*names):
            writer.records.add(record)
    external = np.flatnonzero(writer.f.port_num > 0)
    if np.isin(external, port).all():
        writer.records.add("unlinked")


def _speeds(
    writer: SectionWriter, s: Section, name: str, targets: tuple[str, str, str], rows: np.ndarray, port: np.ndarray
) -> None:
    value = s.column(name, writer.problems)[rows]
    good = value >= 0
    parts, rest = split_speeds(value[good])
    for i in np.flatnonzero(rest):
        line = s.lines[int(rows[good][i])]
        writer.problems.add(line, f"PORTS: {name} {int(value[good][i]):#x} has bits of an unknown speed")
    # Some LinkSpeed component of a port with a link must be nonzero. (ConnectX-7 reports
    # LinkSpeedActive 0 and LinkSpeedExtActive NDR.)
    none = (value[good] == 0) & (writer.f.port_num[port[good]] > 0) & writer.f.linked[port[good]]
    for i in np.flatnonzero(none):
        line = s.lines[int(rows[good][i])]
        writer.problems.add(
            line, f"PORTS: {name} {int(value[good][i]):#x} is not a legal value; using the power-up value"
        )
    for target, part in zip(targets, parts, strict=True):
        f = getattr(PortInfo, target)
        f.set(writer.f.port_info, (part & f.mask)[~none], where=port[good][~none])


def _port_guids(writer: SectionWriter, guid: np.ndarray, port: np.ndarray) -> None:
    f = writer.f
    ca = ~f.is_switch[f.port_node[port]] & (guid > 0)
    f.port_guid[port[ca]] = guid[ca]
    f.guids[f.guid_base[port[ca]]] = guid[ca]


def extended_port_info(writer: SectionWriter, s: Section) -> None:
    """Read EXTENDED_PORT_INFO, the Mellanox speeds: bit 0 is FDR10."""
    rows, port = writer.ports(s)
    for k, name in enumerate(("LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive")):
        if s.has(name):
            value = s.column(name, writer.problems)[rows]
            writer.f.port_mlnx_speed[port[value >= 0], k] = value[value >= 0] & 1


def switches(writer: SectionWriter, s: Section) -> None:
    """Read SWITCHES: SwitchInfo. A linear table has at least one entry and at most one for each
    unicast LID. A P_Key table has at most the length that softib supports."""
    rows, node = writer.nodes(s)
    keep = writer.f.is_switch[node]
    rows, switch = rows[keep], writer.f.switch_of_node[node[keep]]
    legal = {
        "linear_fdb_cap": _legal(16, range(1, writer.f.sizes.lft_cap + 1)),
        "partition_enforcement_cap": _legal(16, range(PKEYS_MAX + 1)),  # the builder creates tables of this length
    }
    for name, target in SWITCH_INFO.items():
        if s.has(name):
            writer.write(s, name, getattr(SwitchInfo, target), writer.f.switch_info, rows, switch, legal.get(target))


def sms(writer: SectionWriter, s: Section) -> None:
    """Read SM_INFO: the subnet managers."""
    if not s.has("NodeGUID", "PortNumber", "SmState", "Priority"):
        return
    writer.records.add("sm")
    rows, port = writer.ports(s)
    c = {n: s.column(n, writer.problems)[rows] for n in ("SmState", "Priority")}
    for i, p in enumerate(port.tolist()):
        writer.f.source.sms.append(
            {
                "node": int(writer.f.port_node[p]),
                "portnum": int(writer.f.port_num[p]),
                "priority": int(c["Priority"][i]),
                "state": int(c["SmState"][i]),
            }
        )


def pkeys(writer: SectionWriter, s: Section) -> None:
    """Read PKEY: the P_Key tables."""
    names = ("BlockNum", "Index", "PKey", "Membership")
    if not s.has("NodeGUID", "LocalPortNum", *names):
        return
    f = writer.f
    rows, port = writer.ports(s)
    block, at, pkey, full = (s.column(n, writer.problems)[rows] for n in names)
    place = np.where((block >= 0) & (block < 2048), block, 2048) * 32 + at
    good = (place >= 0) & (place < f.pkey_cap[port]) & (pkey >= 0) & (at >= 0) & (at < 32)
    for i in np.flatnonzero(~good):
        writer.problems.add(
            s.lines[int(rows[i])],
            f"PKEY: entry {int(at[i])} of block {int(block[i])} of a table of {int(f.pkey_cap[port[i]])}",
        )
    f.pkeys[f.pkey_base[port[good]] + place[good]] = ((pkey & 0x7FFF) | np.where(full > 0, 0x8000, 0))[good]


def port_labels(writer: SectionWriter, s: Section) -> None:
    """Read the labels printed on ports."""
    if s.has("NodeGUID", "PortNum", "Label"):
        rows, port = writer.ports(s)
        labels = s.text("Label")
        writer.f.port_label.update(
            {p: labels[i] for i, p in zip(rows.tolist(), port.tolist(), strict=True) if labels[i] not in ("", "N/A")}
        )
