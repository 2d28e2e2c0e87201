"""Stock programs against our agents: what they print is compared with ibsim on the same netlist, or with the spec."""

import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from softib.iba.smp import PortInfo
from tests.agents.lab import fields, tool

from .ibsim_stand_in import PRELOAD, StandIn
from .smps import line

pytestmark = pytest.mark.stock


@pytest.fixture
def served(tmp_path, monkeypatch):
    if not Path(PRELOAD).is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
    monkeypatch.chdir(tmp_path)
    f, s, h = line(4, hosts=2)
    server = StandIn(f, f"softib-test-{os.getpid()}-{time.monotonic_ns()}")
    server.start()
    yield f, server, s, h
    server.stop()


def netlist(f):
    """The fabric as ibsim reads it."""
    out = []
    for node in range(f.sizes.nodes):
        guid = int(f.node_guid[node])
        kind = "Switch" if f.is_switch[node] else "Hca"
        out.append(f"vendid=0x2c9\ndevid={int(f.device_id[node]):#x}\nsysimgguid={guid:#x}")
        out.append(f"{'switchguid' if kind == 'Switch' else 'caguid'}={guid:#x}")
        out.append(f'{kind} {int(f.node_nports[node])} "{f.node_name(node)}"')
        for port in f.ports_of(node):
            peer = int(f.port_peer[port])
            if peer >= 0:
                there = f'"{f.node_name(int(f.port_node[peer]))}"[{int(f.port_num[peer])}]'
                out.append(f"[{int(f.port_num[port])}] {there}")
        out.append("")
    return "\n".join(out)


@pytest.fixture
def ibsim(served, stock, tmp_path):
    """Stock ibsim on the same netlist: environment of its clients."""
    f, *_ = served
    (tmp_path / "net").write_text(netlist(f))
    name = f"softib-stock-{os.getpid()}-{time.monotonic_ns()}"
    env = {**os.environ, "IBSIM_SOCKNAME": name}
    run = subprocess.Popen(
        [stock("ibsim"), "-s", str(tmp_path / "net")],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    for _ in range(600):
        if f"@{name}:ctl" in Path("/proc/net/unix").read_text():
            break
        time.sleep(0.1)
    yield lambda node: {**env, "LD_PRELOAD": PRELOAD, "SIM_HOST": node}
    run.kill()
    run.wait()


def test_smpquery_prints_what_it_prints_on_ibsim(served, ibsim, stock):
    _f, server, _s, _h = served
    q = stock("smpquery")
    ours, theirs = server.environment("h0"), ibsim("h0")
    same = 0
    for path in ("0", "0,1", "0,1,2", "0,1,7", "0,1,7,7", "0,1,7,7,1"):
        a, b = (fields(tool(e, q, "-D", "nodeinfo", path)) for e in (ours, theirs))
        for told in (a, b):  # what devices differ in and a netlist does not say
            del told["PartCap"], told["Revision"]
        assert len(a) == 10 and a == b
        assert tool(ours, q, "-D", "nodedesc", path) == tool(theirs, q, "-D", "nodedesc", path)
        for port in ("1", "7") if path.endswith("7") else ("1",):
            a, b = (fields(tool(e, q, "-D", "portinfo", path, port)) for e in (ours, theirs))
            assert a.keys() <= b.keys() | {"LinkSpeedExtActive"} and len(a) > 40
            for key in (
                "Mkey",
                "Lid",
                "SMLid",
                "LocalPort",
                "LinkState",
                "PhysLinkState",
                "LMC",
                "SMSL",
                "DiagCode",
                "ProtectBits",
                "LinkWidthActive",
            ):
                assert a[key] == b[key], (path, port, key)
                same += 1
    for path in ("0,1", "0,1,7"):
        a, b = (fields(tool(e, q, "-D", "switchinfo", path)) for e in (ours, theirs))
        assert a.keys() == b.keys()
        assert a["LinearFdbTop"] == b["LinearFdbTop"] == "0"
    assert same >= 80


def test_ibportstate_moves_our_ports(served, stock):
    f, server, s, _h = served
    env, p = server.environment("h0"), stock("ibportstate")
    near, far = int(f.port(s[0], 7)), int(f.port(s[1], 8))
    state = lambda: f.port_state[[near, far]].tolist()
    tool(env, p, "-D", "0,1", "7", "disable")
    assert state() == [1, 1] and PortInfo.port_phys_state.get(f.port_info[near]) == 3
    assert "Disabled" in tool(env, p, "-D", "0,1", "7", "query", check=False)
    tool(env, p, "-D", "0,1", "7", "enable")
    assert state() == [2, 2]
    tool(env, p, "-D", "0,1", "7", "arm")
    tool(env, p, "-D", "0,1", "7", "active")
    assert state() == [4, 2]
    tool(env, p, "-D", "0,1", "7", "reset")
    assert state() == [2, 2]
    tool(env, p, "-D", "0,1", "7", "width", "1")
    assert PortInfo.link_width_enabled.get(f.port_info[near]) == 1


def test_opensm_brings_our_fabric_up(served, stock, tmp_path):
    f, server, s, _h = served
    env = {**server.environment("h0", sm=True), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    run = subprocess.run(
        [stock("opensm"), "-o", "-f", str(tmp_path / "osm.log"), "-Q"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    log = (tmp_path / "osm.log").read_text()
    assert "SUBNET UP" in run.stdout + log
    assert not re.findall(r"ERR (?!5418|4102).*", log), re.findall(r"ERR .*", log)
    assert (f.port_state[f.linked] == 4).all(), "every cabled port is ACTIVE"
    lids = f.lid[f.end_ports()]
    assert (lids > 0).all() and len(set(lids.tolist())) == len(lids)
    # Every end port reaches every other one through the tables that OpenSM wrote, over LID-routed MADs.
    env = server.environment("h7")
    for port, lid in zip(f.end_ports(), lids.tolist(), strict=True):
        said = fields(tool(env, stock("smpquery"), "nodeinfo", str(lid)))
        assert int(said["PortGuid"], 16) == f.port_guid[port]
    f.counters["port_xmit_data"][int(f.port(s[2], 1))] = 12345
    shown = fields(tool(env, stock("perfquery"), str(int(f.lid[f.port(s[2], 0)])), "1"))
    assert shown["PortXmitData"] == "12345"
    shown = fields(tool(env, stock("perfquery"), "-x", str(int(f.lid[f.port(s[2], 0)])), "1"))
    assert shown["PortXmitData"] == "12345"
    tool(env, stock("perfquery"), "-R", str(int(f.lid[f.port(s[2], 0)])), "1")
    assert not f.counters["port_xmit_data"][int(f.port(s[2], 1))]


def test_ibnetdiscover_lists_every_node_and_link(served, stock):
    f, server, _s, _h = served
    out = tool(server.environment("h3"), stock("ibnetdiscover"))
    assert len(re.findall(r"^Switch\t", out, re.M)) == 4 and len(re.findall(r"^Ca\t", out, re.M)) == 8
    assert len(re.findall(r"^\[\d+\]", out, re.M)) == int(f.linked.sum())
    assert set(re.findall(r'^(?:Switch|Ca)\t.*# "(\w+)"', out, re.M)) == set(f.node_names())
    assert np.count_nonzero(f.linked) == 22


def opensm(stock, env, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    env = {**env, "SIM_SET_ISSM": "1", "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    log = folder / "osm.log"
    tool(env, stock("opensm"), "-o", "-f", str(log), "-l", "1")
    assert "SUBNET UP" in log.read_text()


def test_opensm_leaves_the_same_fabric_here_and_on_ibsim(served, ibsim, stock, tmp_path):
    """Same netlist, same OpenSM: the tables and LIDs that it wrote into our agents are those it wrote into ibsim."""
    f, server, *_ = served
    ours, theirs = server.environment("h0"), ibsim("h0")
    opensm(stock, ours, tmp_path, "ours")
    opensm(stock, theirs, tmp_path, "theirs")
    a, b = (tool(e, stock("dump_fts")) for e in (ours, theirs))
    assert a == b and len(re.findall("^0x", a, re.M)) == 4 * (4 + 2 * 8)
    q = stock("smpquery")
    for port in f.end_ports():
        lid = str(int(f.lid[port]))
        a, b = (fields(tool(e, q, "portinfo", lid, str(int(f.port_num[port])))) for e in (ours, theirs))
        for key in ("Lid", "SMLid", "LinkState", "PhysLinkState", "LMC", "LocalPort", "SMSL", "GidPrefix"):
            if key == "LinkState" and not f.port_num[port]:
                continue
            assert a[key] == b[key], (f.port_name(int(port)), key)
