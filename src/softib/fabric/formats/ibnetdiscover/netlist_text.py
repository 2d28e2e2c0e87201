"""Writes the text that ibnetdiscover prints and ibsim loads: one block of lines a node.

Source: the output of infiniband-diags' ibnetdiscover, and ibsim's example nets (the same form).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.identity import Stated
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo, SwitchInfo

__all__ = ["KINDS", "Names", "active_lanes", "active_rates", "descriptions", "netlist"]

KINDS = {
    NodeType.SWITCH: ("Switch", "S", "switchguid"),
    NodeType.CA: ("Ca", "H", "caguid"),
    NodeType.ROUTER: ("Rt", "R", "rtguid"),
}
"""Node type → word of the node line, prefix of its name, word of the GUID line."""


@dataclass
class Names:
    """What a writer calls the nodes; lists by node."""

    guid: list[int]
    desc: list[str]
    """NodeDescription as the node line has it."""
    remark: list[str]
    """The same as the port lines of its peers repeat it."""
    left_out: set[int]


def descriptions(f: Fabric) -> list[str]:
    """NodeDescriptions as text; bytes that are no UTF-8 survive as surrogates."""
    return [row.split(b"\0")[0].decode("utf-8", "surrogateescape") for row in map(bytes, f.node_desc)]


def active_lanes(f: Fabric) -> np.ndarray:
    """Lanes of LinkWidthActive of each port, 0 where no width is set."""
    table = np.zeros(256, np.int64)
    for bit, lanes in LANES_BY_BIT.items():
        table[bit] = lanes
    return table[PortInfo.link_width_active.get(f.port_info)]


def active_rates(f: Fabric) -> list[str]:
    """``4xHDR`` for each port, from its PortInfo."""
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed).tolist()
    return [
        f"{n}x{SPEED_BY_CODE[c].name if c else '???'}" for n, c in zip(active_lanes(f).tolist(), codes, strict=True)
    ]


def netlist(f: Fabric, names: Names, rates: list[str], header: str) -> bytes:
    """The whole file. Ports without a known peer have no line, nor have nodes that are
    ``left_out``."""
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
        # What the fabric's own source did not state is stated by no file that softib writes either.
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
