"""Writes a netlist that stock ibsim loads (``ibsim -s -n FILE``): ibnetdiscover's form within
ibsim's limits.

The limits, read off ibsim 0.10's and 0.12's parser and tried on 0.10:

* a NodeGUID that occurs twice, a peer that is not in the file, and a node of 0 ports end the
  reading;
* a description ends at the first quotation mark and has at most 63 octets; an empty one becomes the
  node's name;
* a ``w``, ``s`` or ``e`` before an equals sign, anywhere in a port line, is taken for an option;
* 2x and 8x links must have the same width at both ends;
* PortGUIDs are NodeGUID + portnum;
* 0.10 knows speeds up to HDR. Faster links are written ``4xHDR speed=NDR``: ibsim runs them at HDR,
  our reader at NDR;
* 2,048 nodes, 256 switches and 13,312 ports unless started with ``-N``, ``-S`` and ``-P``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softib.fabric.formats.ibnetdiscover.netlist_text import Names, active_lanes, descriptions, netlist
from softib.fabric.formats.ibnetdiscover.writer import cable_notes
from softib.fabric.formats.text import shown
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import SPEED_BY_CODE, SPEED_BY_NAME
from softib.plural import counted
from softib.whole_files import write_file

__all__ = ["DEFAULT_NODES", "DEFAULT_PORTS", "DEFAULT_SWITCHES", "write"]

DEFAULT_NODES, DEFAULT_SWITCHES, DEFAULT_PORTS = 2048, 256, 256 * 36 + 2048 * 2
DESC_MAX = 63
FASTEST = "HDR"
_SPARE_GUID = 0x0250F1B0FFFF0000


def write(f: Fabric, path: Path) -> list[str]:
    """Write ``f`` as an ibsim netlist. Returns a note for each thing changed to make it loadable."""
    notes: list[str] = []
    empty = np.flatnonzero(f.node_nports == 0).tolist()
    if empty:
        notes.append(
            f"{counted(len(empty), 'node')} without ports are left out: {f.node_name(empty[0])}"
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
            f"beyond ibsim's default limits: load it with -N {f.sizes.nodes + 1} -S {f.sizes.switches + 1} -P "
            f"{ports + 1}"
        )
    octets = netlist(f, Names(guid, desc, remark, set(empty)), rates, "# Netlist for ibsim, written by softib\n")
    write_file(path, lambda part: part.write_bytes(octets))
    return notes


def _unique_guids(f: Fabric, notes: list[str]) -> list[int]:
    """NodeGUIDs; of equal ones (and for 0) all but the first node get a spare one."""
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
            notes.append(f"NodeGUID {g:#018x} of {f.node_name(i)} is not unique; {spare:#018x} stands in")
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
    # 2x and 8x share no width bit with the others in ibsim.
    clash = up & (lanes != lanes[peer]) & (np.isin(lanes, (2, 8)) | np.isin(lanes[peer], (2, 8)))
    if clash.any():
        lanes = np.where(clash, np.minimum(lanes, lanes[peer]), lanes)
        notes.append(f"{int(clash.sum()) // 2} links with different widths at their ends have the narrower at both")
    fastest = SPEED_BY_NAME[FASTEST].code
    if (up & (code > fastest)).any():
        names = "/".join(SPEED_BY_CODE[c].name for c in np.unique(code[up & (code > fastest)]).tolist())
        notes.append(
            f"{int((up & (code > fastest)).sum()) // 2} links at {names} are written as {FASTEST}, "
            "the fastest that stock ibsim 0.10 knows"
        )
    return [
        f"{n}x{SPEED_BY_CODE[min(c, fastest)].name if c else 'SDR'}"
        + (f" speed={SPEED_BY_CODE[c].name}" if c > fastest else "")
        for n, c in zip(lanes.tolist(), code.tolist(), strict=True)
    ]


def _port_guid_note(f: Fabric, guid: list[int], notes: list[str]) -> None:
    """ibsim makes PortGUIDs itself; say where they differ from the fabric's, and where they clash."""
    ca = np.flatnonzero(~f.is_switch[f.port_node])
    made = np.array(guid, np.uint64)[f.port_node[ca]] + f.port_num[ca].astype(np.uint64)
    differ = int((made != f.port_guid[ca]).sum())
    if differ:
        notes.append(f"ibsim gives {differ} CA ports another PortGUID: NodeGUID + port number")
    clashes = len(made) - len(np.unique(made))
    if clashes:
        notes.append(f"{clashes} of these PortGUIDs occur twice: a subnet manager will complain")
