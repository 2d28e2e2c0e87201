"""Real fabric files: proofs whose numbers are known, and every engine on every file."""

import numpy as np
import pytest

from softib.fabric.formats.lft.dump import read_lfts
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType
from softib.routing.engine import ENGINES, NEEDS, route
from softib.routing.graph import PortColumns, SwitchGraph
from softib.routing.proof.verify import verify

FILES = [
    "hk-creditloop/ibnetdiscover_manually_created.txt",
    "hk-examples/Topo.1.txt",
    "hk-examples/Topo.2.txt",
    "hk-examples/Topo.3.txt",
    "hk-examples/Topo.5.txt",
    "hk-examples/Topo.6_CS8500.txt",
    "psmn-x5/X5.topofile",
    "fdr10-stage/topo",
    "ftree-k4n3/k-4-n-3-Full.topo",
    "ufm-selene-storage/selene.storage.txt",
    "ufm-small-lab/small_topo_file",
    "qnib-net/netlist.clos3_2x_modSw",
    "qnib-net/netlist.clos7",
    "superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt",
]


def graph_of(f: Fabric, number_lids: bool) -> SwitchGraph:
    """The graph of a fabric; LIDs as in the file, or 1, 2, 3 … in the order of the ports."""
    lid = f.lid.astype(np.int64)
    if number_lids:
        lid = np.zeros(f.sizes.ports, np.int64)
        lid[f.end_ports()] = 1 + np.arange(len(f.end_ports()))
    sharp = np.array(["Aggregation Node" in name for name in f.node_names()])
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=f.node_type,
            node_guid=f.node_guid,
            node_nports=f.node_nports,
            port_node=f.port_node,
            port_num=f.port_num,
            port_guid=f.port_guid,
            port_peer=f.port_peer,
            port_lid=lid,
            port_lmc=f.lmc,
            sys_guid=f.sys_guid,
            is_host=(f.node_type == NodeType.CA) & ~sharp,
        )
    )


def test_the_credit_loop_of_the_ring(shared_data):
    f = read(shared_data / FILES[0]).fabric
    for number in (True, False):
        g = graph_of(f, number)
        p = verify(g, route(g, "minhop").lft)
        assert len(p.credit_loop) == 4 and p.unreachable == 0
        assert sorted(s for s, _, _ in p.credit_loop) == [0, 1, 2, 3]
        assert verify(g, route(g, "updn").lft).ok and verify(g, route(g, "dnup").lft).ok


def test_tables_from_a_file_arrive(shared_data):
    """ibutils' cluster: 62 switches to 64 other LIDs each, 3,968 routes; ibdm calls them all good."""
    f = read(shared_data / "ibutils-clusters/subnet.lst").fabric
    lft, problems = read_lfts(shared_data / "ibutils-clusters/osm.fdbs", f)
    p = verify(graph_of(f, False), lft)
    assert not problems
    assert p.switch_switch.arrived + p.switch_ca.arrived == p.switch_switch.total + p.switch_ca.total == 62 * 64
    assert p.ok and p.ca_ca.total == 6


def test_one_wrong_entry_in_a_file_is_found(shared_data):
    f = read(shared_data / "ibutils-clusters/subnet.lst").fabric
    lft, _ = read_lfts(shared_data / "ibutils-clusters/osm.fdbs", f)
    g = graph_of(f, False)
    end = int(np.flatnonzero(~g.end_is_switch)[0])
    lft[g.end_switch[end], g.end_lid[end]] = 255
    p = verify(g, lft)
    assert p.switch_ca.dead_end == 62 and p.ca_ca.dead_end == 2
    assert all(x.lid == g.end_lid[end] for x in p.failures)


LARGE = ("hk-examples/Topo.5.txt", "hk-examples/Topo.6_CS8500.txt", "ufm-selene-storage/selene.storage.txt")


@pytest.mark.parametrize("name", [pytest.param(f, marks=[pytest.mark.slow] if f in LARGE else []) for f in FILES])
def test_every_engine_routes_every_file(shared_data, name):
    g = graph_of(read(shared_data / name).fabric, True)
    for engine in (name for name in ENGINES if name not in NEEDS):
        r = route(g, engine)
        p = verify(g, r.lft, r.path_sl, r.sl2vl)
        assert p.unreachable == 0, engine
        assert p.deadlock_free or r.engine in ("minhop", "sssp", "dor")


def test_sharp_nodes_on_spines_do_not_hide_the_tree(shared_data):
    g = graph_of(read(shared_data / "hk-examples/Topo.5.txt").fabric, True)
    assert np.count_nonzero(~g.end_is_switch & ~g.end_is_compute) == 206
    notes = " ".join(route(g, "ftree").notes)
    assert "every switch has compute nodes" not in notes
