"""Write a fabric in the form of ``ibnetdiscover``'s output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.fabric.formats.base import shown
from softib.fabric.identity import Stated
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, SPEED_BY_NAME
from softib.iba.smp import PortInfo, SwitchInfo
from softib.plural import counted
from softib.whole_files import write_file

__all__ = [
    "DEFAULT_NODES",
    "DEFAULT_PORTS",
    "DEFAULT_SWITCHES",
    "KINDS",
    "Names",
    "active_lanes",
    "active_rates",
    "descriptions",
    "netlist",
    "write",
    "write_ibsim",
]


KINDS = {
    NodeType.SWITCH: ("Switch", "S", "switchguid"),
    NodeType.CA: ("Ca", "H", "caguid"),
    NodeType.ROUTER: ("Rt", "R", "rtguid"),
}
"""Node type → keyword of the node line, prefix of the node's name, keyword of the GUID line."""


@dataclass
class Names:
    """Names of the nodes in the file: lists with one entry per node."""

    guid: list[int]
    desc: list[str]
    """NodeDescription in the node's own line."""
    remark: list[str]
    """NodeDescription in the port lines of the node's peers."""
    left_out: set[int]


def descriptions(f: Fabric) -> list[str]:
    """Return NodeDescriptions as text. Bytes that are not valid UTF-8 become surrogates."""
    return [row.split(b"\0")[0].decode("utf-8", "surrogateescape") for row in map(bytes, f.node_desc)]


def active_lanes(f: Fabric) -> np.ndarray:
    """Return the lanes of each port's LinkWidthActive; 0 if no width is set."""
    table = np.zeros(256, np.int64)
    for bit, lanes in LANES_BY_BIT.items():
        table[bit] = lanes
    return table[PortInfo.link_width_active.get(f.port_info)]


def active_rates(f: Fabric) -> list[str]:
    """Return the rate of each port from its PortInfo, for example ``4xHDR``."""
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed).tolist()
    return [
        f"{n}x{SPEED_BY_CODE[c].name if c else '???'}" for n, c in zip(active_lanes(f).tolist(), codes, strict=True)
    ]


def netlist(f: Fabric, names: Names, rates: list[str], header: str) -> bytes:
    """Return the whole file. Ports without a known peer, and nodes in ``left_out``, have no
    line."""
    lid, lmc = f.lid.tolist(), f.lmc.tolist()
    node_of, num_of, peer_of = f.port_node.tolist(), f.port_num.tolist(), f.port_peer.tolist()
    port_guid, base = f.port_guid.tolist(), f.node_base.tolist()
    types = f.node_type.tolist()
    enhanced = SwitchInfo.enhanced_port0.get(f.switch_info).tolist()
    switch_of, sys_guid = f.switch_of_node.tolist(), f.sys_guid.tolist()
    stated = f.node_stated.tolist()
    vendor, device, nports = f.vendor_id.tolist(), f.device_id.tolist(), f.node_nports.tolist()
    key = [f"{KINDS[t][1]}-{g:016x}" for t, g in zip(types, names.guid, strict=True)]
    out = [header]
    for node, kind in enumerate(types):
        if node in names.left_out:
            continue
        word, _, guid_word = KINDS[kind]
        is_switch = kind == NodeType.SWITCH
        guid = f"{guid_word}={names.guid[node]:#x}" + (f"({names.guid[node]:x})" if is_switch else "")
        # Values that the source of the fabric did not state are not written.
        ids = f"vendid={vendor[node]:#x}\n" if stated[node] & Stated.VENDOR else ""
        ids += f"devid={device[node]:#x}\n" if stated[node] & Stated.DEVICE else ""
        out.append(f"\n{ids}sysimgguid={sys_guid[node]:#x}\n{guid}\n")
        tail = ""
        if is_switch:
            row = base[node]
            port0 = "enhanced" if enhanced[switch_of[node]] else "base"
            tail = f" {port0} port 0 lid {lid[row]} lmc {lmc[row]}"
        out.append(f'{word}\t{nports[node]} "{key[node]}"\t\t# "{names.desc[node]}"{tail}\n')
        for port in range(base[node] + 1, base[node] + nports[node] + 1):
            peer = peer_of[port]
            if peer < 0:
                continue
            other = node_of[peer]
            if other in names.left_out:
                continue
            to_switch = types[other] == NodeType.SWITCH
            guid_text = "" if is_switch else f"({port_guid[port]:x}) "
            lid_text = "" if is_switch else f"lid {lid[port]} lmc {lmc[port]} "
            peer_guid = "" if to_switch else f"({port_guid[peer]:x}) "
            peer_lid = lid[base[other]] if to_switch else lid[peer]
            out.append(
                f'[{num_of[port]}]{guid_text}\t"{key[other]}"[{num_of[peer]}]{peer_guid}\t\t'
                f'# {lid_text}"{names.remark[other]}" lid {peer_lid} {rates[port]}\n'
            )
    return "".join(out).encode("utf-8", "surrogateescape")


def write(f: Fabric, path: Path) -> list[str]:
    """Write ``f`` as ibnetdiscover text. Return notes on content that the format cannot
    represent."""
    notes = []
    desc = descriptions(f)
    clean = ["".join(c if c.isprintable() or "\udc80" <= c <= "\udcff" else " " for c in d) for d in desc]
    changed = sum(a != b for a, b in zip(desc, clean, strict=True))
    if changed:
        notes.append(f"{changed} descriptions have control characters, which are written as blanks")
    notes += cable_notes(f)
    if f.port_label:
        notes.append(f"{len(f.port_label)} port labels are not part of this format")
    names = Names(f.node_guid.tolist(), clean, clean, set())
    first = f"# Initiated from node {int(f.node_guid[0]):016x}\n" if f.sizes.nodes else ""
    header = f"#\n# Topology file: generated by softib\n#\n{first}"
    octets = netlist(f, names, active_rates(f), header)
    write_file(path, lambda part: part.write_bytes(octets))
    return notes


def cable_notes(f: Fabric) -> list[str]:
    """Return notes on cables that a list of port records cannot represent."""
    notes = []
    lost = np.flatnonzero(f.cable_port[:, 1] < 0)
    if len(lost):
        ports = ", ".join(f.port_name(int(f.cable_port[i, 0])) for i in lost[:3])
        notes.append(
            f"{counted(len(lost), 'cable')} with an unknown peer are omitted: {ports}"
            + (", …" if len(lost) > 3 else "")
        )
    one_sided = int(((f.cable_listed == 1) & (f.cable_port[:, 1] >= 0)).sum())
    if one_sided:
        notes.append(f"{counted(one_sided, 'cable')} listed at one end only in the source, written at both")
    return notes


DEFAULT_NODES, DEFAULT_SWITCHES, DEFAULT_PORTS = 2048, 256, 256 * 36 + 2048 * 2
DESC_MAX = 63
FASTEST = "HDR"
_SPARE_GUID = 0x0250F1B0FFFF0000


def write_ibsim(f: Fabric, path: Path) -> list[str]:
    """Write ``f`` as an ibsim netlist. Return a note for each change that was needed so that ibsim
    can load the file."""
    notes: list[str] = []
    empty = np.flatnonzero(f.node_nports == 0).tolist()
    if empty:
        notes.append(
            f"{counted(len(empty), 'node')} without ports are omitted: {f.node_name(empty[0])}"
            + (", …" if empty[1:] else "")
        )
    guid = _unique_guids(f, notes)
    desc = _descriptions(f, notes)
    remark = [d.replace("=", "-") for d in desc]
    rates = _rates(f, notes)
    notes += cable_notes(f)
    _port_guid_note(f, guid, notes)
    ports = f.sizes.ports
    if f.sizes.nodes > DEFAULT_NODES or f.sizes.switches > DEFAULT_SWITCHES or ports > DEFAULT_PORTS:
        notes.append(
            f"the fabric exceeds ibsim's default limits: load it with -N {f.sizes.nodes + 1} -S {f.sizes.switches + 1} "
            f"-P "
            f"{ports + 1}"
        )
    octets = netlist(f, Names(guid, desc, remark, set(empty)), rates, "# Netlist for ibsim, written by softib\n")
    write_file(path, lambda part: part.write_bytes(octets))
    return notes


def _unique_guids(f: Fabric, notes: list[str]) -> list[int]:
    """Return unique NodeGUIDs. If several nodes have the same GUID (or 0), all but the first get an
    unused one."""
    guid = f.node_guid.tolist()
    seen: set[int] = {0}
    spare = _SPARE_GUID
    taken = set(guid)
    for i, g in enumerate(guid):
        if g in seen:
            while spare in taken:
                spare += 1
            guid[i] = spare
            taken.add(spare)
            notes.append(f"NodeGUID {g:#018x} of {f.node_name(i)} is not unique; written as {spare:#018x}")
        seen.add(guid[i])
    return guid


def _descriptions(f: Fabric, notes: list[str]) -> list[str]:
    out = []
    for i, desc in enumerate(descriptions(f)):
        clean = "".join("'" if c == '"' else c if c.isprintable() or "\udc80" <= c <= "\udcff" else " " for c in desc)
        raw = clean.encode("utf-8", "surrogateescape")
        if len(raw) > DESC_MAX:
            clean = raw[:DESC_MAX].decode("utf-8", "surrogateescape")
        if clean != desc:
            notes.append(f"description {shown(desc)} is written as {shown(clean, 70)}")
        if not clean:
            notes.append(f"node {int(f.node_guid[i]):#018x} has no description; ibsim calls it by its GUID")
        out.append(clean)
    return out


def _rates(f: Fabric, notes: list[str]) -> list[str]:
    code = active_speed_codes(f.port_info, f.port_mlnx_speed).astype(np.int64)
    lanes = active_lanes(f)
    up = f.linked
    peer = np.where(up, f.port_peer, np.arange(f.sizes.ports))
    # In ibsim, 2x and 8x have no width bit in common with the other widths.
    clash = up & (lanes != lanes[peer]) & (np.isin(lanes, (2, 8)) | np.isin(lanes[peer], (2, 8)))
    if clash.any():
        lanes = np.where(clash, np.minimum(lanes, lanes[peer]), lanes)
        notes.append(
            f"{counted(int(clash.sum()) // 2, 'link')} with a different width at each end; written with the narrower"
        )
    fastest = SPEED_BY_NAME[FASTEST].code
    if (up & (code > fastest)).any():
        names = "/".join(SPEED_BY_CODE[c].name for c in np.unique(code[up & (code > fastest)]).tolist())
        notes.append(
            f"{counted(int((up & (code > fastest)).sum()) // 2, 'link')} at {names} written as {FASTEST}, "
            "the fastest speed of stock ibsim 0.10"
        )
    return [
        f"{n}x{SPEED_BY_CODE[min(c, fastest)].name if c else 'SDR'}"
        + (f" speed={SPEED_BY_CODE[c].name}" if c > fastest else "")
        for n, c in zip(lanes.tolist(), code.tolist(), strict=True)
    ]


def _port_guid_note(f: Fabric, guid: list[int], notes: list[str]) -> None:
    """Note the PortGUIDs that will change because ibsim generates them: those that it generates
    differently, and those that clash."""
    ca = np.flatnonzero(~f.is_switch[f.port_node])
    of_ibsim = np.array(guid, np.uint64)[f.port_node[ca]] + f.port_num[ca].astype(np.uint64)
    differ = int((of_ibsim != f.port_guid[ca]).sum())
    if differ:
        notes.append(f"ibsim gives {differ} CA ports another PortGUID (NodeGUID + port number)")
    clashes = len(of_ibsim) - len(np.unique(of_ibsim))
    if clashes:
        notes.append(f"{clashes} of these PortGUIDs are not unique, which subnet managers report as an error")
