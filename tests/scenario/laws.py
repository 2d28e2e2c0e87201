"""What holds in every subnet that is up, checked on the fabric itself and not on what the manager believes."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo, SwitchInfo

P = PortInfo


def reached(fabric: Fabric, start: int) -> np.ndarray:
    """bool[nodes]: what hangs together with node ``start`` (plain search over cables; CAs pass nothing on)."""
    seen = np.zeros(fabric.sizes.nodes, bool)
    seen[start] = True
    queue = [start]
    while queue:
        node = queue.pop()
        if node != start and not fabric.is_switch[node]:
            continue
        for port in fabric.ports_of(node):
            peer = int(fabric.port_peer[port])
            if peer >= 0 and not seen[fabric.port_node[peer]]:
                seen[fabric.port_node[peer]] = True
                queue.append(int(fabric.port_node[peer]))
    return seen


def check(fabric: Fabric, start: int, lmc: int = 0, from_all: bool = False) -> None:
    """Assert every law for the part of ``fabric`` that node ``start`` sees. ``from_all``: routes start at every switch,
    not only at those that carry CAs (up/down engines may leave two spines without a path)."""
    here = reached(fabric, start)[fabric.port_node]
    check_links(fabric, here)
    lids = check_lids(fabric, here, lmc)
    check_tables(fabric, here, lids, from_all)


def check_links(fabric: Fabric, here: np.ndarray) -> None:
    info, peer = fabric.port_info, fabric.port_peer
    rows = np.flatnonzero(here & fabric.linked)
    assert (P.port_state.get(info[rows]) == PortState.ACTIVE).all()
    assert (P.neighbor_mtu.get(info[rows]) == P.neighbor_mtu.get(info[peer[rows]])).all()
    assert (P.operational_vls.get(info[rows]) == P.operational_vls.get(info[peer[rows]])).all()
    least = np.minimum(P.mtu_cap.get(info[rows]), P.mtu_cap.get(info[peer[rows]]))
    assert (P.neighbor_mtu.get(info[rows]) == least).all()
    dark = np.flatnonzero(here & ~fabric.linked & (fabric.port_num > 0))
    assert (P.port_state.get(info[dark]) == PortState.DOWN).all()


def check_lids(fabric: Fabric, here: np.ndarray, lmc: int) -> dict[int, int]:
    """Every end port has its own aligned block. Returns {LID: port}."""
    owners: dict[int, int] = {}
    ends = [p for p in fabric.end_ports().tolist() if here[p]]
    sm_lid = set()
    for port in ends:
        lid, width = int(fabric.lid[port]), int(fabric.lmc[port])
        assert width == (0 if fabric.port_num[port] == 0 else lmc)
        assert lid > 0 and lid % (1 << width) == 0
        for own in range(lid, lid + (1 << width)):
            assert own not in owners
            owners[own] = port
        sm_lid.add(int(P.master_sm_lid.get(fabric.port_info[port])))
    assert len(sm_lid) == 1 and sm_lid <= set(owners)
    return owners


def check_tables(fabric: Fabric, here: np.ndarray, owners: dict[int, int], from_all: bool) -> None:
    """From every (leaf) switch, every LID is reached along the tables, and LinearFDBTop covers exactly the LIDs in use."""
    switches = [s for s, n in enumerate(fabric.switch_node.tolist()) if here[fabric.node_base[n]]]
    top = max(owners)
    assert (SwitchInfo.linear_fdb_top.get(fabric.switch_info[switches]) == top).all()
    carries = {
        int(fabric.switch_of_node[fabric.port_node[fabric.port_peer[p]]]) for p in owners.values() if fabric.linked[p]
    }
    sources = switches if from_all else sorted(carries & set(switches))
    for lid, owner in owners.items():
        # All switches at once: walk until delivered, at most as many steps as there are switches.
        at = np.array(sources)
        done = np.zeros(len(at), bool)
        for _ in range(len(switches) + 1):
            out = fabric.lft[at, lid].astype(np.int64)
            assert (out[~done] != 255).all(), f"no route to LID {lid}"
            node = fabric.switch_node[at]
            port = fabric.node_base[node] + out
            delivered = (out == 0) & (port == owner)
            assert ((out > 0) | delivered)[~done].all()
            peer = np.where(out > 0, fabric.port_peer[port], port)
            delivered |= peer == owner
            done |= delivered
            if done.all():
                break
            onward = fabric.switch_of_node[fabric.port_node[peer]]
            assert (onward[~done] >= 0).all(), f"LID {lid} ends at a CA that does not own it"
            at = np.where(done, at, onward)
        assert done.all(), f"LID {lid} runs in a circle"
