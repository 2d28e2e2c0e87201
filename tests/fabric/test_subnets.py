"""Subnets of a fabric: what cables and switches join, and whose LIDs are whose."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import softib
from softib.fabric.end_ports import valid_lids
from softib.fabric.subnets import subnet_of
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo


def _rails(seed: int):
    """Hosts with two ports on two trees, some cables taken out."""
    f = generate("rail-optimized", nodes=8, rails=2, radix=8)
    rng = np.random.default_rng(seed)
    from softib.fabric.plugging import delete_cables

    delete_cables(f, np.flatnonzero(rng.random(f.sizes.cables) < 0.15 * seed))
    return f


@pytest.mark.parametrize("seed", range(4))
def test_ports_share_a_subnet_where_networkx_has_them_in_one_component(seed):
    """Switches are one vertex, each port of an adapter is one: it forwards nothing (IBA 4.1)."""
    f = _rails(seed)
    device = [("switch", int(n)) if f.is_switch[n] else ("port", p) for p, n in enumerate(f.port_node.tolist())]
    graph = nx.Graph()
    graph.add_nodes_from(device)
    graph.add_edges_from((device[p], device[q]) for p, q in enumerate(f.port_peer.tolist()) if q >= 0)
    number = {vertex: k for k, part in enumerate(nx.connected_components(graph)) for vertex in part}
    subnet = subnet_of(f)
    pairs = {(int(a), number[d]) for a, d in zip(subnet, device, strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


TWO = """\
Switch\t8 "S-0000000000000001"\t\t# "leaf-a" base port 0 lid 2 lmc 0
[1]\t"H-0000000000000011"[1](12)\t\t# "host-1" lid 1 4xHDR
[2]\t"H-0000000000000021"[1](22)\t\t# "host-2" lid 3 4xHDR

Switch\t8 "S-0000000000000002"\t\t# "leaf-b" base port 0 lid 2 lmc 0
[1]\t"H-0000000000000031"[1](32)\t\t# "host-3" lid 1 4xHDR
[2]\t"H-0000000000000041"[1](42)\t\t# "host-4" lid {lid} 4xHDR

Ca\t1 "H-0000000000000011"\t\t# "host-1"
[1](12)\t"S-0000000000000001"[1]\t\t# lid 1 lmc 0 "leaf-a" lid 2 4xHDR

Ca\t1 "H-0000000000000021"\t\t# "host-2"
[1](22)\t"S-0000000000000001"[2]\t\t# lid 3 lmc 0 "leaf-a" lid 2 4xHDR

Ca\t1 "H-0000000000000031"\t\t# "host-3"
[1](32)\t"S-0000000000000002"[1]\t\t# lid 1 lmc 0 "leaf-b" lid 2 4xHDR

Ca\t1 "H-0000000000000041"\t\t# "host-4"
[1](42)\t"S-0000000000000002"[2]\t\t# lid {lid} lmc 0 "leaf-b" lid 2 4xHDR
"""


@pytest.mark.parametrize(("lid", "ports"), [(3, []), (1, ["host-3[1]", "host-4[1]"]), (2, ["host-4[1]", "leaf-b[0]"])])
def test_a_lid_is_a_duplicate_on_one_subnet_alone(tmp_path, lid, ports):
    """LIDs are unique within a subnet (IBA 4.1.3): the two switches may both have LID 2."""
    file = tmp_path / "two.ibnetdiscover"
    file.write_text(TWO.format(lid=lid))
    findings = [f for f in softib.check(str(file)) if f.code == "duplicate-lid"]
    assert sorted(str(p) for f in findings for p in f.where) == ports
    fabric = softib.load(str(file))._result.fabric
    ends, good = valid_lids(fabric)
    assert int((~good).sum()) == len(ports) // 2
    assert PortInfo.lid.get(fabric.port_info)[ends].all()


ROUTES = """\
Unicast lids [0x0-0x3] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000000001 (leaf-a):
0x0001 {route} : (Channel Adapter portguid 0x0000000000000012: 'host-1')
0x0002 000 : (Switch portguid 0x0000000000000001: 'leaf-a')
0x0003 002 : (Channel Adapter portguid 0x0000000000000022: 'host-2')
Unicast lids [0x0-0x3] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000000002 (leaf-b):
0x0001 001 : (Channel Adapter portguid 0x0000000000000032: 'host-3')
0x0002 000 : (Switch portguid 0x0000000000000002: 'leaf-b')
0x0003 002 : (Channel Adapter portguid {owner})
"""


def _check(tmp_path, **routes: str):
    """Findings about :data:`TWO`, whose host-4 has the LID of host-3, on tables."""
    (tmp_path / "two.ibnetdiscover").write_text(TWO.format(lid=1))
    (tmp_path / "two.lfts").write_text(ROUTES.format(**routes))
    found = softib.check(str(tmp_path / "two.ibnetdiscover"), lfts=str(tmp_path / "two.lfts"))
    return {f.code: f for f in found if f.code != "isolated-part"}


def test_a_lid_taken_twice_explains_no_pair_of_another_subnet(tmp_path):
    """host-1 is LID 1 of its subnet, and has no route there; host-3 and host-4 are both LID 1 of theirs, so one misses the other."""
    found = _check(tmp_path, route="255", owner="0x0000000000000099: 'gone'")
    assert set(found) == {"unreachable-pairs", "duplicate-lid"}
    assert found["unreachable-pairs"].evidence["missed"] == ["host-1 (LID 1)"]
    assert found["duplicate-lid"].message == "host-3[1] and host-4[1] both have LID 1; 1 of 4 pairs does not arrive"


def test_a_port_takes_its_lid_of_the_dump_though_another_subnet_has_the_same(tmp_path):
    """The dump knows host-4 as LID 3, which host-2 has on its own subnet: by these tables every pair arrives."""
    found = _check(tmp_path, route="001", owner="0x0000000000000042: 'host-4'")
    assert [f.message for f in found.values()] == ["host-3[1] and host-4[1] both have LID 1"]
