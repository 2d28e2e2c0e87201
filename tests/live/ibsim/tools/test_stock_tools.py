"""Stock programs, unmodified, on our server: each is run, and what it prints is compared with the fabric's truth."""

from __future__ import annotations

import re
import signal
import subprocess

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo, SwitchInfo
from tests.live.serving import PRELOAD, Serving, run, wait_for

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]


@pytest.fixture(scope="module")
def up(stock_of_module, tmp_path_factory):
    """A tree of 16 hosts, 8 leaves and 4 spines that stock OpenSM (ftree) has brought up."""
    folder = tmp_path_factory.mktemp("tools")
    s = Serving(generate("fat-tree", radix=4, levels=3))
    s.folder, s.host = folder, s.fabric.node_name(int(s.fabric.cas[0]))
    code, said = run(folder, s.environment(s.host), stock_of_module("opensm"), "-o", "-R", "ftree", "-f", "osm.log")
    log = (folder / "osm.log").read_text()
    assert code == 0 and "SUBNET UP" in log, said
    assert not re.findall(r"ERR \w+.*", log)
    yield s
    s.stop()


@pytest.fixture(scope="module")
def stock_of_module():
    import os
    import shutil

    def find(program: str) -> str:
        path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        return path or pytest.skip(f"{program} is not installed")

    return find


@pytest.fixture
def tool(up, stock):
    def call(*command: str, node: str = "", code: int = 0, seconds: float = 240) -> str:
        got, said = run(up.folder, up.environment(node or up.host), stock(command[0]), *command[1:], seconds=seconds)
        assert got == code, (command, got, said[-2000:])
        return said

    return call


def fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+):\.+(.*)$", text, re.M))


def lid_of(s: Serving, port: int) -> str:
    return str(int(s.fabric.lid[port]))


def test_ibnetdiscover_ibhosts_ibswitches_list_the_fabric(up, tool):
    f = up.fabric
    out = tool("ibnetdiscover")
    assert set(re.findall(r'^(?:Switch|Ca)\t.*# "([^"]+)"', out, re.M)) == set(f.node_names())
    assert len(re.findall(r"^\[\d+\]", out, re.M)) == int(f.linked.sum())
    lines = tool("ibhosts").splitlines()
    assert sorted(re.search(r'"(.*)"', x)[1] for x in lines) == sorted(f.node_name(int(n)) for n in f.cas)
    assert len(tool("ibswitches").splitlines()) == f.sizes.switches
    assert len(tool("ibnodes").splitlines()) == f.sizes.nodes


def test_iblinkinfo_shows_every_link_active_at_its_speed(up, tool):
    out = tool("iblinkinfo", "-l")
    links = [x for x in out.splitlines() if "==(" in x and "Down" not in x]
    assert len(links) == int(up.fabric.linked.sum())
    assert all(re.search(r"4X\s+106\.25 Gbps Active/\s*LinkUp", x) for x in links), links[:2]


def test_smpquery_every_operation(up, tool):
    f = up.fabric
    leaf = int(f.port_peer[f.end_ports()[-1]])
    switch = int(f.node_base[f.port_node[leaf]])
    lid = lid_of(up, switch)
    assert int(fields(tool("smpquery", "nodeinfo", lid))["Guid"], 16) == f.node_guid[f.port_node[leaf]]
    assert f.node_name(int(f.port_node[leaf])) in tool("smpquery", "nodedesc", lid)
    info = fields(tool("smpquery", "portinfo", lid, str(int(f.port_num[leaf]))))
    assert info["LinkState"] == "Active" and info["PhysLinkState"] == "LinkUp" and info["NeighborMTU"] == "4096"
    top = int(SwitchInfo.linear_fdb_top.get(f.switch_info[f.switch_of_node[f.port_node[leaf]]]))
    assert fields(tool("smpquery", "switchinfo", lid))["LinearFdbTop"] == str(top)
    assert "0xffff" in tool("smpquery", "pkeys", lid)
    assert tool("smpquery", "sl2vl", lid, "1").count("|") > 16
    assert (
        "LowPriority" in tool("smpquery", "vlarb", lid, "1")
        or "priority" in tool("smpquery", "vlarb", lid, "1").lower()
    )
    guid = int(f.port_guid[f.end_ports()[0]])
    assert f"{guid:016x}" in tool("smpquery", "gi", lid_of(up, int(f.end_ports()[0])))
    # By GUID (through the SA) needs an SA: OpenSM has left, so the answer is a timeout, not a hang.
    tool("smpquery", "-G", "nodeinfo", f"{guid:#x}", code=255, seconds=240)


def test_perfquery_reads_and_resets(up, tool):
    f = up.fabric
    port = int(f.end_ports()[-1])
    lid = lid_of(up, port)
    f.counters["port_xmit_data"][port], f.counters["symbol_error_counter"][port] = 1 << 33, 7
    told = int(fields(tool("perfquery", "-x", lid, "1"))["PortXmitData"])
    assert 0 <= told - (1 << 33) < 4000, "what was counted, and the MADs of the question itself"
    basic = fields(tool("perfquery", lid, "1"))
    assert basic["PortXmitData"] == str(0xFFFFFFFF) and basic["SymbolErrorCounter"] == "7"
    tool("perfquery", "-R", lid, "1")
    assert f.counters["port_xmit_data"][port] < 4000


def test_ibroute_and_ibtracert_follow_the_tables(up, tool):
    f = up.fabric
    a, b = (int(f.node_base[n]) + 1 for n in (f.cas[0], f.cas[-1]))
    hops = re.findall(r"-> \S+ port (?:\{0x\w+\})?\[(\d+)\]", tool("ibtracert", lid_of(up, a), lid_of(up, b)))
    assert len(hops) == 6, "leaf, spine and core, up and down"
    switch = 0
    lid = lid_of(up, int(f.node_base[f.switch_node[switch]]))
    shown = re.findall(r"^0x(\w{4}) (\d{3}) :", tool("ibroute", lid), re.M)
    assert len(shown) == f.sizes.nodes
    assert all(f.lft[switch, int(x, 16)] == int(p) for x, p in shown)


def test_ibportstate_takes_a_link_down_and_up(up, tool):
    f = up.fabric
    near = int(f.port_peer[int(f.node_base[f.cas[-1]]) + 1])
    lid, portnum = lid_of(up, int(f.node_base[f.port_node[near]])), str(int(f.port_num[near]))
    tool("ibportstate", lid, portnum, "disable")
    assert f.port_state[near] == f.port_state[f.port_peer[near]] == 1
    tool("ibportstate", lid, portnum, "enable")
    assert f.port_state[near] == 2
    for state in ("arm", "active"):
        for end, n in ((lid, portnum),):
            tool("ibportstate", end, n, state)
    assert f.port_state[near] == 4


BOUNCED = (
    ("vendstat", "-N", "{lid}"),
    ("ibping", "-c", "1", "-t", "100", "{lid}"),
    ("ibsysstat", "-t", "100", "{lid}"),
    ("saquery",),
    ("sminfo",),
)


@pytest.mark.parametrize("command", BOUNCED, ids=lambda c: c[0])
def test_what_nobody_answers_ends_in_an_error_and_not_in_a_hang(command, up, stock):
    lid = lid_of(up, int(up.fabric.end_ports()[-1]))
    words = [w.format(lid=lid) for w in command]
    host = up.fabric.node_name(int(up.fabric.cas[1]))
    code, said = run(up.folder, up.environment(host), stock(words[0]), *words[1:], seconds=240)
    assert code != 0 or "0 received" in said or "100% packet loss" in said, said


@pytest.mark.parametrize(
    ("engine", "kind", "options"),
    [
        ("minhop", "fat-tree", {"radix": 4, "levels": 3}),
        ("updn", "fat-tree", {"radix": 4, "levels": 3}),
        ("dor", "torus", {"dims": [3, 3], "hosts_per_switch": 1}),
        ("ftree", "fat-tree", {"radix": 8, "levels": 2}),
    ],
)
def test_opensm_reaches_subnet_up(engine, kind, options, stock, tmp_path):
    f = generate(kind, **options)
    s = Serving(f)
    code, said = run(tmp_path, s.environment(), stock("opensm"), "-o", "-R", engine, "-f", "osm.log")
    log = (tmp_path / "osm.log").read_text()
    assert code == 0 and "SUBNET UP" in log, said
    assert not re.findall(r"ERR \w+.*", log)
    assert (f.port_state[f.linked] == 4).all()
    assert (f.lid[f.end_ports()] > 0).all()
    s.stop()


def test_a_running_opensm_answers_survives_and_sweeps_again(stock, tmp_path):
    """sminfo, saquery and ibping against it; a link down and up again; another client killed; good-bye."""
    f = generate("fat-tree", radix=4, levels=3)
    s = Serving(f)
    env = {**s.environment(f.node_name(int(f.cas[0]))), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    log = tmp_path / "osm.log"
    sm = subprocess.Popen(
        [stock("opensm"), "-d2", "-f", str(log)],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ups = lambda: log.read_text().count("SUBNET UP") if log.is_file() else 0
        assert wait_for(lambda: ups() >= 1)
        other = s.environment(f.node_name(int(f.cas[-1])))
        lid = lid_of(s, int(f.node_base[f.cas[0]]) + 1)
        code, said = run(tmp_path, other, stock("sminfo"))
        assert code == 0 and f"sm lid {lid} " in said and "SMINFO_MASTER" in said
        assert f"{int(f.port_guid[f.node_base[f.cas[0]] + 1]):#x}" in said
        code, said = run(tmp_path, other, stock("saquery"))
        assert code == 0 and "NodeRecord dump" in said, "one record: the stock library has no RMPP"
        code, said = run(tmp_path, other, stock("saquery"), "-p", "--src-to-dst", "1:2")
        assert code == 0 and "PathRecord" in said
        run(tmp_path, other, stock("ibping"), "-c", "1", "-t", "200", lid, seconds=240)
        code, said = run(tmp_path, other, stock("ibqueryerrors"))
        assert "node checked" in said or "nodes checked" in said
        assert sm.poll() is None, "ibping did not kill it"
        victim = int(f.port_peer[int(f.node_base[f.cas[-2]]) + 1])
        far = int(f.port_peer[victim])
        s.set_link(victim, False)
        assert wait_for(lambda: ups() >= 2), "trap 128 starts a sweep (the periodic one comes after 10 s)"
        assert f.port_state[victim] == 1
        s.set_link(victim, True)
        assert wait_for(lambda: f.port_state[victim] == f.port_state[far] == 4)
        assert "trap 128" in log.read_text() or "num:128" in log.read_text()
        killed = subprocess.Popen(
            [stock("ibnetdiscover"), "-d"],
            env=other,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        code, said = run(tmp_path, other, stock("sminfo"))
        assert code == 0 and "SMINFO_MASTER" in said
        port = int(f.node_base[f.cas[0]]) + 1
        is_sm = lambda: int(PortInfo.cap_mask.get(f.port_info[port])) >> 1 & 1
        assert is_sm()
        sm.kill()
        sm.wait()
        assert wait_for(lambda: not is_sm()), "a killed manager's port no longer says IsSM"
    finally:
        sm.kill()
        sm.wait()
        s.stop()
    assert np.count_nonzero(f.lid)
