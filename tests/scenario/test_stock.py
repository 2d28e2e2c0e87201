"""Stock programs as oracles: OpenSM's result for the same netlist, and our manager in OpenSM's place on stock ibsim."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.fabric.formats.lft.dump import read_lfts
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.scenario.ibsim import Ibsim, Wire, manage
from tests.scenario.planes import odd_fabric

pytestmark = pytest.mark.stock
FABRICS = {
    "tree": lambda: generate("fat-tree", radix=8, levels=3),
    "rails": lambda: generate("rail-optimized", nodes=6, rails=4, radix=16),
    "ring": lambda: generate("ring", switches=6, hosts_per_switch=2),
    "odd": odd_fabric,
}


@pytest.fixture
def ibsim(stock, tmp_path):
    running: list[Ibsim] = []

    def start(fabric: Fabric) -> Ibsim:
        running.append(Ibsim(stock("ibsim"), fabric, tmp_path))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def first_host(fabric: Fabric) -> str:
    return f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}"


def lids_by_port(fabric: Fabric) -> dict[tuple[int, int], int]:
    """{(NodeGUID, portnum): LID} of end ports."""
    return {
        (int(fabric.node_guid[fabric.port_node[p]]), int(fabric.port_num[p])): int(fabric.lid[p])
        for p in fabric.end_ports().tolist()
    }


def hops(fabric: Fabric, lft: np.ndarray, lids: dict[tuple[int, int], int]) -> dict[tuple[int, int, int], int]:
    """{(switch NodeGUID, owner's NodeGUID, its portnum): links to the owner}, walked along ``lft``."""
    out = {}
    for (guid, portnum), lid in lids.items():
        if not lid:
            continue
        owner = int(fabric.node_base[np.flatnonzero(fabric.node_guid == np.uint64(guid))[0]]) + portnum
        for s, node in enumerate(fabric.switch_node.tolist()):
            at, switch, n = int(fabric.node_base[node]), s, 0
            while at != owner:
                port = int(lft[switch, lid])
                assert port != 255 and n < 64, (fabric.node_name(node), lid)
                at = int(fabric.port_peer[fabric.node_base[fabric.switch_node[switch]] + port])
                n += 1
                if at != owner:
                    switch = int(fabric.switch_of_node[fabric.port_node[at]])
                    at = int(fabric.node_base[fabric.switch_node[switch]])
            out[int(fabric.node_guid[node]), guid, portnum] = n
    return out


def seen_by_stock(sim: Ibsim, stock, node: str) -> tuple[Fabric, np.ndarray]:
    """What stock ibnetdiscover and ibroute see: (a fabric with LIDs, tables in the order of *its* switches)."""
    listing = sim.folder / "seen"
    listing.write_text(sim.tool(node, stock("ibnetdiscover")))
    seen = read(listing).fabric
    dump = sim.folder / "seen.lft"
    lids = seen.lid[seen.node_base[seen.switch_node]].tolist()
    dump.write_text("".join(sim.tool(node, stock("ibroute"), "-n", str(lid)) for lid in lids))
    lft, problems = read_lfts(dump, seen)
    assert not [p for p in problems if "no table" in p.reason]
    return seen, lft


def active_everywhere(sim: Ibsim, stock, node: str) -> int:
    """Number of links that iblinkinfo lists; every one of them must be ACTIVE."""
    lines = [x for x in sim.tool(node, stock("iblinkinfo"), "-l").splitlines() if "==(" in x and "Down" not in x]
    assert lines and all(re.search(r"Active/\s*LinkUp", x) for x in lines), lines[:5]
    return len(lines)


@pytest.mark.parametrize("name", list(FABRICS))
def test_the_same_lids_links_and_hops_as_opensm(name, ibsim, stock):
    """OpenSM gives the same LIDs (its order is our order), every link is ACTIVE, and minhop's hop counts are equal."""
    fabric = FABRICS[name]()
    sim, host = ibsim(fabric), first_host(fabric)
    sim.tool(host, stock("opensm"), "-o", "-R", "minhop", "-f", str(sim.folder / "osm.log"))
    theirs, their_lft = seen_by_stock(sim, stock, host)
    bring_up(fabric, "minhop", node=int(fabric.cas[0]))
    listed = active_everywhere(sim, stock, host)
    assert listed == int(fabric.linked.sum())
    ours = lids_by_port(fabric)
    told = lids_by_port(theirs)
    assert {k: v for k, v in ours.items() if told.get(k)} == {k: v for k, v in told.items() if v}
    assert len(told) >= fabric.sizes.nodes
    assert hops(fabric, fabric.lft, ours) == hops(theirs, their_lft, told)


@pytest.mark.parametrize(
    ("name", "engine", "lmc"), [("tree", "ftree", 0), ("rails", "minhop", 0), ("odd", "updn", 0), ("ring", "updn", 1)]
)
def test_our_manager_takes_opensms_place_on_stock_ibsim(name, engine, lmc, ibsim, stock):
    """Over a real wire, 4 SMPs at a time: stock tools find every link ACTIVE and our tables in ibsim's switches."""
    fabric = FABRICS[name]()
    sim, host = ibsim(fabric), first_host(fabric)
    wire = Wire(sim.name, host)
    sm = SubnetManager(SmConfig(engine=engine, lmc=lmc))
    manage(sm, wire)
    assert not sm.report.problems and sm.report.nodes == fabric.sizes.nodes
    first = sm.report
    # ibsim does not keep NeighborMTU, so a second sweep may set PortInfo again, but nothing else.
    sm.request_sweep()
    manage(sm, wire)
    again = {k: n for k, n in sm.report.mads.items() if k.startswith("Set ") and k != "Set PORT_INFO"}
    assert not again and sm.report.lids == first.lids
    wire.close()
    bring_up(fabric, engine, node=int(fabric.cas[0]), lmc=lmc)
    seen, lft = seen_by_stock(sim, stock, host)
    assert active_everywhere(sim, stock, host) == int(fabric.linked.sum())
    lids = lids_by_port(seen)
    assert {k: v for k, v in lids_by_port(fabric).items() if k in lids} == lids
    used = sm.graph.max_lid + 1
    for s, guid in enumerate(seen.node_guid[seen.switch_node].tolist()):
        here = int(np.flatnonzero(fabric.node_guid[fabric.switch_node] == np.uint64(guid))[0])
        assert (lft[s, :used] == fabric.lft[here, :used]).all(), hex(guid)


def test_port_info_and_switch_info_read_as_after_opensm(ibsim, stock):
    """Field by field what smpquery prints of a host port, a leaf's three kinds of port and a spine's."""
    fabric = generate("fat-tree", radix=8, levels=2)
    host = first_host(fabric)
    told = []
    for manager in ("opensm", "ours"):
        sim = ibsim(fabric)
        if manager == "opensm":
            sim.tool(host, stock("opensm"), "-o", "-R", "minhop", "-f", str(sim.folder / "osm.log"))
        else:
            wire = Wire(sim.name, host)
            manage(SubnetManager(SmConfig()), wire)
            wire.close()
        seen = {}
        for path, ports in (("0", [1]), ("0,1", [0, 1, 2, 5, 8]), ("0,1,5", [0, 1, 3]), ("0,1,2", [1])):
            for portnum in ports:
                for line in sim.tool(host, stock("smpquery"), "-D", "portinfo", path, str(portnum)).splitlines():
                    if ":." in line:
                        name, value = line.split(":", 1)
                        seen[path, portnum, name] = value.strip(".")
            if path in ("0,1", "0,1,5"):
                for line in sim.tool(host, stock("smpquery"), "-D", "switchinfo", path).splitlines():
                    if ":." in line:
                        name, value = line.split(":", 1)
                        seen[path, "switch", name] = value.strip(".")
        told.append(seen)
        sim.stop()
    opensm, ours = told
    assert len(ours) > 400 and set(ours) == set(opensm)
    differ = {k: (opensm[k], ours[k]) for k in ours if ours[k] != opensm[k]}
    assert not differ, differ
