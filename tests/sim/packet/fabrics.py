"""Small fabrics that the packet layer's oracles run on."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo, SwitchInfo
from softib.scenario.bring_up import bring_up
from softib.sim.messages import Messages, messages
from softib.sm.config import config_of
from softib.sm.options.file import read_options


def chain(switches: int, hosts: int = 1, speed: str = "EDR", length_m: float = 2.0) -> Fabric:
    """Switches in a line, each with ``hosts``; host h of switch s is row ``s * hosts + h`` of the end ports."""
    b = FabricBuilder("chain")
    sw = b.nodes(switches, NodeType.SWITCH, hosts + 2, desc=[f"switch-{i}" for i in range(switches)], speed=speed)
    n = switches * hosts
    host = b.nodes(n, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(n)], speed=speed)
    at = np.arange(n)
    b.links(sw[at // hosts], 1 + at % hosts, host, 1, length_m=length_m)
    if switches > 1:
        b.links(sw[:-1], hosts + 1, sw[1:], hosts + 2, length_m=length_m)
    return up(b.build())


def star(hosts: int, speed: str = "EDR", length_m: float = 2.0) -> Fabric:
    """One switch."""
    return chain(1, hosts, speed, length_m)


@cache
def tree(radix: int, levels: int, speed: str = "NDR") -> Fabric:
    """A fat tree that is up (shared: do not change it)."""
    return up(generate("fat-tree", radix=radix, levels=levels, generation=speed))


def up(fabric: Fabric, engine: str = "minhop") -> Fabric:
    """``fabric`` after a subnet manager brought it up. LIDs are in the order of hosts."""
    cas = np.flatnonzero(~fabric.is_switch)
    ports = fabric.node_base[cas] + 1
    PortInfo.lid.set(fabric.port_info, _lids(fabric, ports))
    bring_up(fabric, engine)
    return fabric


def _lids(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    lid = np.zeros(fabric.sizes.ports, np.int64)
    lid[ports] = 1 + np.arange(len(ports))
    return lid


def no_lifetimes(fabric: Fabric) -> Fabric:
    """HOQLife and the switches' lifetime are infinite."""
    PortInfo.hoq_life.set(fabric.port_info, 20)
    SwitchInfo.life_time_value.set(fabric.switch_info, 20)
    return fabric


def fabric_copy(fabric: Fabric) -> Fabric:
    """A copy that may be changed."""
    return copy.deepcopy(fabric)


def congestion(threshold: int, rate: int, timer: int, shift: int) -> dict:
    """Options of OpenSM's congestion control: a table whose entry i is i / 2^shift packet times."""
    sls = "".join(
        f"cc_ca_cong_setting_ccti_timer {sl} {timer}\ncc_ca_cong_setting_ccti_increase {sl} 1\n" for sl in range(16)
    )
    text = (
        f"congestion_control TRUE\ncc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold {threshold}\n"
        f"cc_sw_cong_setting_packet_size 8\ncc_sw_cong_setting_marking_rate {rate}\ncc_ca_cong_setting_control_map 0xffff\n"
        f"{sls}cc_cct {','.join(f'{shift}:{i}' for i in range(128))}\n"
    )
    return read_options(text).options


def adaptive(mode: str = "free") -> Fabric:
    """A two-level tree whose manager enabled adaptive routing."""
    fabric = generate("fat-tree", radix=8, levels=2, generation="NDR")
    bring_up(fabric, config=config_of(read_options(f"adaptive_routing {mode}\n").options | {"engine": "ftree"}))
    return fabric


def ring_around(n: int = 400) -> tuple[Fabric, Messages]:
    """Five switches in a ring, all hosts send to the one two switches on, clockwise."""
    b = FabricBuilder("ring")
    sw = b.nodes(5, NodeType.SWITCH, 4, desc=[f"switch-{i}" for i in range(5)], speed="EDR")
    host = b.nodes(10, NodeType.CA, 1, desc=[f"host-{i}" for i in range(10)], speed="EDR")
    b.links(np.repeat(sw, 2), np.tile([3, 4], 5), host, 1, length_m=2.0)
    b.links(sw, 1, np.roll(sw, -1), 2, length_m=2.0)
    fabric = up(b.build())
    lid = fabric.lid[fabric.node_base[host] + 1].astype(int)
    for i in range(5):
        for h in range(10):
            ahead = (h // 2 - i) % 5
            fabric.lft[i, lid[h]] = 3 + h % 2 if ahead == 0 else 1
    src = np.repeat(np.arange(10), n)
    return fabric, messages(src, (src + 4) % 10, 65536, qp=src)
