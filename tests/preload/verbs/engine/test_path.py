"""The walk in C against the fabric. Oracles: a walk in Python over the same tables, routing.verify, and the agents' own."""

import ctypes as ct

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PhysState, PortState
from softib.iba.smp import PortInfo, SwitchInfo
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of
from tests.preload.verbs.fabric_library import NO_PORT, REASONS, SOURCES, RouteKey, SharedFabricInC, egress, reason

FABRICS = {
    "tree": ("fat-tree", {"radix": 8, "levels": 3}, "ftree", 0),
    "tree with LMC": ("fat-tree", {"radix": 4, "levels": 2}, "minhop", 2),
    "torus": ("torus", {"dims": [4, 3, 3]}, "minhop", 0),
    "ring": ("ring", {"switches": 9}, "updn", 1),
}


def made(name):
    kind, params, engine, lmc = FABRICS[name]
    f = generate(kind, **params)
    bring_up(f, engine, lmc=lmc)
    return f


def walk(f, port, dlid):
    """(reason, dest, egress ports): a packet's way by the rules of the specification, from the columns alone."""
    owner = {}
    for p in f.end_ports().tolist():
        if f.lid[p]:
            owner |= dict.fromkeys(range(int(f.lid[p]), int(f.lid[p]) + (1 << int(f.lmc[p]))), p)
    state, phys = f.port_state, PortInfo.port_phys_state.get(f.port_info)
    if state[port] < PortState.ACTIVE:
        return "not active", None, []
    if owner.get(dlid) == port:
        return "ok", port, []
    passed, at, out = [], None, port
    while True:
        if at is not None:
            row = f.switch_of_node[f.port_node[at]]
            if dlid > SwitchInfo.linear_fdb_top.get(f.switch_info[row]) or f.lft[row, dlid] == 255:
                return "no route", None, passed
            out = int(f.node_base[f.port_node[at]] + f.lft[row, dlid])
            if f.port_num[out] == 0:
                return ("ok", out, passed) if owner.get(dlid) == out else ("no route", None, passed)
        peer = int(f.port_peer[out])
        if peer < 0 or phys[out] != PhysState.LINK_UP or phys[peer] != PhysState.LINK_UP:
            return "link down", None, passed
        if state[out] < PortState.ACTIVE or state[peer] < PortState.ARMED:
            return "not active", None, passed
        passed.append(out)
        if len(passed) > 128:
            return "loop", None, passed[:128]
        if not f.is_switch[f.port_node[peer]]:
            return ("ok", peer, passed) if owner.get(dlid) == peer else ("no route", None, passed)
        at = peer


def compare(shared, rng, n=400):
    """Random pairs, unknown LIDs among them. Returns how often each reason came."""
    f = shared.fabric
    ends = f.end_ports()
    seen = {}
    for _ in range(n):
        port, dlid = int(rng.choice(ends)), int(rng.integers(1, int(f.lid.max()) + 12))
        if f.is_switch[f.port_node[port]]:
            continue
        got, want = shared.walk(port, dlid), walk(f, port, dlid)
        expected = want[0]
        assert (reason(got), egress(got)) == (expected, want[2]), (port, dlid)
        assert got.dest == (NO_PORT if want[1] is None else want[1])
        seen[expected] = seen.get(expected, 0) + 1
    return seen


@pytest.mark.parametrize("name", FABRICS)
def test_every_path_is_the_one_of_the_tables(tmp_path, name):
    shared, rng = SharedFabricInC(tmp_path, made(name)), np.random.default_rng(3)
    f = shared.fabric
    assert compare(shared, rng)["ok"] > 100
    # Pull cables and let some links hang in INIT: the tables still lead there.
    for port in rng.choice(np.flatnonzero(f.linked), 6, replace=False):
        for end in (port, f.port_peer[port]):
            info = f.port_info[end]
            PortInfo.port_state.set(info, PortState.DOWN if port % 2 else PortState.INIT)
            PortInfo.port_phys_state.set(info, PhysState.POLLING if port % 2 else PhysState.LINK_UP)
    # And spoil tables: entries that lead nowhere, to a wrong port, or in a circle.
    for _ in range(30):
        f.lft[rng.integers(f.sizes.switches), rng.integers(1, f.lid.max())] = rng.choice([255, 0, 1, 2, 3])
    seen = compare(shared, rng, 1500)
    assert len(seen) >= 4 and seen["ok"] > 50, seen


@pytest.mark.parametrize("name", FABRICS)
def test_as_many_paths_arrive_with_the_hops_that_verify_counts(tmp_path, name):
    """verify looks at tables alone: every pair of CA port and LID, hops = links but the first."""
    f = made(name)
    shared = SharedFabricInC(tmp_path, f)
    proof = verify(graph_of(f), f.lft)
    cas = np.flatnonzero(~f.is_switch[f.port_node] & f.linked)
    lids = np.concatenate([int(f.lid[p]) + np.arange(1 << int(f.lmc[p])) for p in f.end_ports()])
    hops, routes_n = {}, []
    for port in cas.tolist():
        local = range(int(f.lid[port]), int(f.lid[port]) + (1 << int(f.lmc[port])))
        routes_n += [(port, int(lid)) for lid in lids if lid not in local]
    routes = (RouteKey * len(routes_n))(*(RouteKey(port=p, dlid=d, pkey=0xFFFF) for p, d in routes_n))
    n = len(routes_n)
    reasons, dest, links = np.zeros(n, np.uint8), np.zeros(n, np.uint32), np.zeros(n, np.uint16)
    shared.library.probe_walk_all(
        shared.memory, routes, n, *(ct.c_void_p(a.ctypes.data) for a in (reasons, dest, links))
    )
    for count in links[reasons == 0].tolist():
        hops[count - 1] = hops.get(count - 1, 0) + 1
    assert hops == {int(k): int(v) for k, v in proof.hops.items() if v}
    assert np.count_nonzero(reasons == 0) == proof.ca_ca.arrived + proof.ca_switch.arrived == n


def test_the_agents_and_the_walk_agree_which_lids_answer(tmp_path):
    from tests.agents.smps import ask

    f = made("torus")
    shared, plane = SharedFabricInC(tmp_path, f), None
    plane = AgentPlane(shared.fabric)
    rng = np.random.default_rng(5)
    for port in rng.choice(np.flatnonzero(f.linked), 4, replace=False):
        plane.set_link(int(port), False)
    cas = [p for p in f.end_ports().tolist() if f.port_num[p]]
    outcomes = set()
    for _ in range(200):
        a, z = (int(p) for p in rng.choice(cas, 2))
        there, back = shared.walk(a, int(f.lid[z])), shared.walk(z, int(f.lid[a]))
        answered = ask(plane, a, klass=4, attr=1, dlid=int(f.lid[z])) is not None
        assert answered == (reason(there) == reason(back) == "ok"), (a, z)
        outcomes.add(answered)
    assert outcomes == {True, False}


def line(tmp_path, **kw):
    """host-0 - s0 - s1 - host-1, brought up."""
    from tests.agents.smps import line as chain

    f, s, h = chain(2, **kw)
    bring_up(f)
    shared = SharedFabricInC(tmp_path, f)
    ports = [int(f.port(n, 1)) for n in h]
    return shared, shared.fabric, s, ports


def refused(shared, a, z, **more):
    got = shared.walk(a, int(shared.fabric.lid[z]), **more)
    return reason(got), got.drop, got.counter, got.links


def set_pkeys(f, port, *keys):
    first = int(f.pkey_base[port])
    f.pkeys[first : first + int(f.pkey_cap[port])] = 0
    f.pkeys[first : first + len(keys)] = keys


def test_partitions(tmp_path):
    """IBA 10.9.1.2: equal low bits, one of the two a full member; partition 0 is none."""
    shared, f, s, (a, z) = line(tmp_path)
    PKEY, IN, OUT = 7, 6, 5
    keys = [0xFFFF, 0x7FFF, 0x8001, 0x0001, 0x8000, 0x0000]
    for held in keys:
        set_pkeys(f, z, held)
        for sent in keys:
            match = sent & 0x7FFF == held & 0x7FFF != 0 and bool((sent | held) & 0x8000)
            want = ("ok", NO_PORT, 0, 3) if match else ("pkey", z, PKEY, 3)
            assert refused(shared, a, z, pkey=sent) == want
            if held & 0x7FFF:
                assert refused(shared, a, z, pkey=sent, dest_pkey=held) == want
    set_pkeys(f, z, 0x8001, 0x8002)
    # The receiving QP's own key counts, not any of its port.
    assert refused(shared, a, z, pkey=0x8002)[0] == "ok"
    assert refused(shared, a, z, pkey=0x8002, dest_pkey=0x8001)[0] == "pkey"
    # A switch that enforces where the packet comes in, or goes out.
    entry, exit_ = int(f.port(s[0], 1)), int(f.port(s[1], 1))
    PortInfo.partition_enforcement_inbound.set(f.port_info[entry], 1)
    set_pkeys(f, entry, 0x8001)
    assert refused(shared, a, z, pkey=0x8001)[0] == "ok"
    assert refused(shared, a, z, pkey=0x8002) == ("pkey at switch", entry, IN, 1)
    # On the way in the partition decides, on the way out the membership too.
    set_pkeys(f, z, 0x8001)
    set_pkeys(f, entry, 0x0001)
    assert refused(shared, a, z, pkey=0x0001)[0] == refused(shared, a, z, pkey=0x8001)[0] == "ok"
    set_pkeys(f, z, 0x8001, 0x8002)
    PortInfo.partition_enforcement_inbound.set(f.port_info[entry], 0)
    PortInfo.partition_enforcement_outbound.set(f.port_info[exit_], 1)
    set_pkeys(f, exit_, 0x8001)
    assert refused(shared, a, z, pkey=0x8002) == ("pkey at switch", exit_, OUT, 2)
    assert refused(shared, a, z, pkey=0x8001)[0] == refused(shared, a, z, pkey=0x0001)[0] == "ok"
    set_pkeys(f, exit_, 0x0001)
    assert refused(shared, a, z, pkey=0x0001)[0] == "pkey at switch"
    assert refused(shared, a, z, pkey=0x8001)[0] == "ok"


def test_mtu_lanes_gids_and_the_local_lid(tmp_path):
    shared, f, s, (a, z) = line(tmp_path)
    middle = int(f.port(s[0], 7))
    PortInfo.neighbor_mtu.set(f.port_info[middle], 3)
    assert shared.walk(a, int(f.lid[z])).mtu == 3
    assert refused(shared, a, z, mtu=3)[0] == "ok"
    assert refused(shared, a, z, mtu=4) == ("mtu", middle, 2, 1)
    # SL2VL of the middle link, for packets that came in by port 1: VL15 is a drop, and so is a VL that it has not.
    vls = f.sl2vl[f.sl2vl_base[middle] + 1]
    vls[2] = 0x1F  # SL 4: VL1, SL 5: VL15
    PortInfo.operational_vls.set(f.port_info[middle], 2)
    assert refused(shared, a, z, sl=4)[0] == "ok"
    assert refused(shared, a, z, sl=5) == ("no vl", int(f.port(s[0], 1)), 4, 1)
    PortInfo.operational_vls.set(f.port_info[middle], 1)
    assert refused(shared, a, z, sl=4)[0] == "no vl"
    # The end port owns the DGID: its PortGUID or an alias, with its own prefix or the default one.
    prefix = int(PortInfo.gid_prefix.get(f.port_info[z]))
    for guid, want in ((int(f.port_guid[z]), "ok"), (int(f.port_guid[z]) + 1, "gid"), (0, "gid")):
        gid = (prefix << 64 | guid).to_bytes(16, "big")
        assert refused(shared, a, z, is_global=True, dgid=(ct.c_uint8 * 16)(*gid))[0] == want
    # Its own LID: a loopback, without a link; and not through a port that is not up.
    assert refused(shared, a, a) == ("ok", NO_PORT, 0, 0)
    assert reason(shared.walk(a, 0)) == reason(shared.walk(a, 0xC000)) == reason(shared.walk(a, 0xFFFF)) == "no route"
    PortInfo.port_state.set(f.port_info[a], PortState.ARMED)
    assert refused(shared, a, a)[0] == refused(shared, a, z)[0] == "not active"
    assert refused(shared, z, a)[0] == "ok"  # ARMED receives (IBA 7.2.7)


def test_a_path_carries_the_epoch_from_before_the_walk(tmp_path):
    shared, f, _, (a, z) = line(tmp_path)
    shared.shared.epoch = 41
    assert shared.walk(a, int(f.lid[z])).epoch == 41
    shared.shared.epoch = 42
    assert shared.walk(a, int(f.lid[z])).epoch == 42


def test_multicast_reaches_the_members_and_each_link_once(tmp_path):
    """Oracle: flooding in Python over the masks."""
    f = made("tree")
    rng = np.random.default_rng(11)
    cas = np.flatnonzero(~f.is_switch[f.port_node] & f.linked)
    members = set(rng.choice(cas, 20, replace=False).tolist())
    # A spanning tree of the switches, from the root's on, and the members' own ports.
    root = min(members)
    shared = SharedFabricInC(tmp_path, f)
    f = shared.fabric

    SwitchInfo.mcast_fdb_top.set(f.switch_info, 0xC005)  # the manager knows no group so high

    def join(port):
        """``port`` of a switch carries the group."""
        n = int(f.port_num[port])
        f.mft[f.switch_of_node[f.port_node[port]], 5, n // 16] |= np.uint16(1 << n % 16)

    reached, todo = {int(f.port_node[f.port_peer[root]])}, [int(f.port_node[f.port_peer[root]])]
    while todo:
        for out in f.ports_of(todo.pop(0)):
            peer = int(f.port_peer[out])
            if peer >= 0 and f.is_switch[f.port_node[peer]] and int(f.port_node[peer]) not in reached:
                reached.add(int(f.port_node[peer]))
                todo.append(int(f.port_node[peer]))
                join(out)
                join(peer)
    for m in members:
        join(int(f.port_peer[m]))
    for sender in [root, *list(members)[:3], int(next(p for p in cas if p not in members))]:
        want_dests, want_links, queue, seen = set(), {sender}, [int(f.port_peer[sender])], set()
        while queue:
            entry = queue.pop()
            node = f.port_node[entry]
            if node in seen:
                continue
            seen.add(node)
            masks = f.mft[f.switch_of_node[node], 5]
            for n in range(1, int(f.node_nports[node]) + 1):
                out = int(f.node_base[node]) + n
                if masks[n // 16] >> (n % 16) & 1 and out != entry and f.port_peer[out] >= 0:
                    want_links.add(out)
                    peer = int(f.port_peer[out])
                    if f.is_switch[f.port_node[peer]]:
                        queue.append(peer)
                    else:
                        want_dests.add(peer)
        expected, dests, links = shared.tree(sender, 0xC005)
        assert expected == "ok" and sorted(dests) == sorted(want_dests) and sorted(links) == sorted(want_links)
        assert want_dests == members - {sender}
    assert shared.tree(root, 0xC006) == ("ok", [], [root])  # a group without members: the first switch drops it
    assert shared.tree(root, 0xBFFF)[0] == shared.tree(root, 0xFFFF)[0] == "no route"
    PortInfo.port_phys_state.set(f.port_info[root], PhysState.POLLING)
    assert shared.tree(root, 0xC005) == ("link down", [], [])


def test_reasons_are_in_the_order_of_the_header():

    text = (SOURCES / "path.h").read_text()
    body = text[text.index("enum sv_reason {") : text.index("/* Parameters of a sender")]
    assert len([w for w in body.split() if w.startswith("SV_") and w.rstrip(",") == w.rstrip(",").upper()]) >= len(
        REASONS
    )
