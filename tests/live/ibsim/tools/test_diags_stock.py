"""Tools of infiniband-diags under the stock preload, option by option: what they print is compared with the fabric's arrays.

The options of perfquery that show counters by VL, SL and lane, ibccquery and ibccconfig are in
``tests/agents/test_stock_gmp.py``; here they go through the server once more.
"""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from softib.fabric.power_up import advertise_fec
from softib.fabric.topologies.registry import generate
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo, SwitchInfo
from softib.scenario.bring_up import bring_up
from tests.live.serving import PRELOAD, Serving, run, wait_for

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]


@pytest.fixture(scope="module")
def served():
    s = Serving(generate("fat-tree", radix=4, levels=3, generation="HDR"))
    s.do(lambda: bring_up(s.fabric, engine="minhop", plane=s.router.plane))
    yield s
    s.stop()


@pytest.fixture
def tool(served, stock, tmp_path):
    """Run a tool on the first host; it must end well (or as ``code`` says)."""

    def call(*command: str, code: int = 0, node: str = "") -> str:
        got, said = run(tmp_path, served.environment(node), stock(command[0]), *command[1:])
        assert got == code, (command, got, said)
        # The stock library's own line, with its pid and number.
        return re.sub(r"^ibwarn: .*sim_connect: attached as client.*\n", "", said, flags=re.M)

    return call


def fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w[\w ]*):\.*(.*)$", text, re.M))


def an_uplink(f) -> int:
    """A port of a leaf that faces a spine, far from the first host."""
    both = f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
    return int(np.flatnonzero(both)[-1])


def of_switch(f, port: int) -> tuple[str, str]:
    """LID and portnum, as tools want them."""
    return str(int(f.lid[f.node_base[f.port_node[port]]])), str(int(f.port_num[port]))


# -- counters --

PLAIN = {
    "SymbolErrorCounter": "symbol_error_counter",
    "LinkErrorRecoveryCounter": "link_error_recovery_counter",
    "LinkDownedCounter": "link_downed_counter",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitWait": "port_xmit_wait",
    "VL15Dropped": "vl15_dropped",
}
OPTIONAL = (
    "-X",
    "-S",
    "-D",
    "-E",
    "-T",
    "--oprcvcounters",
    "--flowctlcounters",
    "--vloppackets",
    "--vlopdata",
    "--vlxmitflowctlerrors",
    "--vlxmitcounters",
    "--swportvlcong",
    "--rcvcc",
    "--slrcvfecn",
    "--slrcvbecn",
    "--xmitcc",
    "--vlxmittimecc",
    "-c",
)


def test_perfquery_plain_and_extended(served, tool):
    f, port = served.fabric, an_uplink(served.fabric)
    for i, name in enumerate(PLAIN.values()):
        f.counters[name][port] = 3 + i
    f.counters["port_multicast_xmit_pkts"][port] = 1 << 40
    lid, num = of_switch(f, port)
    shown = fields(tool("perfquery", lid, num))
    assert {k: int(shown[k]) for k in PLAIN} == {k: 3 + i for i, k in enumerate(PLAIN)}
    assert fields(tool("perfquery", "-x", lid, num))["PortMulticastXmitPkts"] == str(1 << 40)
    guid = f"{int(f.node_guid[f.port_node[port]]):#x}"
    assert guid and fields(tool("perfquery", "-a", lid))["PortSelect"] == "255"
    assert len(re.findall("PortSelect", tool("perfquery", "-a", "-l", lid))) == int(f.node_nports[f.port_node[port]])
    assert fields(tool("perfquery", "-r", lid, num))["PortRcvErrors"] == "6"
    assert not any(f.counters[name][port] for name in PLAIN.values()) and not served.router.bounced


@pytest.mark.parametrize("option", OPTIONAL)
def test_perfquery_optional_attributes_answer(option, served, tool):
    before = served.router.bounced
    lid, num = of_switch(served.fabric, an_uplink(served.fabric))
    shown = fields(tool("perfquery", option, lid, num))
    assert shown["PortSelect"] == num and len(shown) > 2 and served.router.bounced == before
    if option != "-c":
        tool("perfquery", "-R", option, lid, num)


# -- subnet management --

OPERATIONS = (
    "nodeinfo",
    "nodedesc",
    "portinfo",
    "switchinfo",
    "pkeys",
    "sl2vl",
    "vlarb",
    "guidinfo",
    "mlnxextportinfo",
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_smpquery_by_lid_and_by_route(operation, served, tool):
    f = served.fabric
    on_ca = operation == "guidinfo"
    port = int(f.node_base[f.cas[0]]) + 1 if on_ca else int(f.port_peer[int(f.node_base[f.cas[0]]) + 1])
    lid = str(int(f.lid[port])) if on_ca else of_switch(f, port)[0]
    words = [str(int(f.port_num[port]))] if operation not in ("nodeinfo", "nodedesc", "switchinfo", "guidinfo") else []
    by_lid = tool("smpquery", operation, lid, *words)
    by_route = tool("smpquery", "-D", operation, "0" if on_ca else "0,1", *words)
    body = lambda text: [
        x for x in text.splitlines() if not x.startswith("#") and "LocalPort:" not in x and "Lid" not in x
    ]
    assert body(by_lid) == body(by_route) and body(by_lid)
    node = int(f.port_node[port])
    shown = fields(by_lid)
    if operation == "nodeinfo":
        assert int(shown["Guid"], 16) == int(f.node_guid[node]) and shown["NumPorts"] == str(int(f.node_nports[node]))
    if operation == "mlnxextportinfo":
        assert "StateChangeEnable" in shown
    if operation == "switchinfo":
        assert shown["LinearFdbCap"] == "49152"
    if operation == "nodedesc":
        assert by_lid.strip().endswith(f.node_name(node))


def test_smpquery_portinfoextended(stock, tmp_path):
    f = generate("fat-tree", radix=4, levels=2, generation="NDR")
    advertise_fec(f)
    s = Serving(f)
    try:
        s.do(lambda: bring_up(f, plane=s.router.plane))
        code, said = run(tmp_path, s.environment(), stock("smpquery"), "-D", "portinfoextended", "0,1", "1")
        assert code == 0 and "FECModeActive" in said.replace(" ", ""), said
    finally:
        s.stop()


def test_ibroute_unicast_and_multicast(served, tool):
    f = served.fabric
    SwitchInfo.mcast_fdb_top.set(f.switch_info, 0xC003)  # the manager knows no group so high
    for row in (0, f.sizes.switches - 1):
        lid = str(int(f.lid[f.node_base[f.switch_node[row]]]))
        shown = re.findall(r"^0x(\w{4}) (\d{3}) :", tool("ibroute", lid), re.M)
        assert len(shown) == f.sizes.nodes and all(f.lft[row, int(x, 16)] == int(p) for x, p in shown)
        f.mft[row, 3] = 0
        f.mft[row, 3, 0] = 0b10110
        shown = re.findall(r"^0x(\w{4})\s+(.*)$", tool("ibroute", "-M", lid), re.M)
        mlids = {int(x, 16): marks for x, marks in shown}
        assert list(mlids) == [0xC003]
        assert mlids[0xC003].count("x") == 3


def test_ibtracert_and_ibaddr(served, tool):
    f = served.fabric
    ends = [int(f.node_base[n]) + 1 for n in f.cas]
    said = tool("ibtracert", str(int(f.lid[ends[0]])), str(int(f.lid[ends[-1]])))
    hops = re.findall(r"\{(0x\w+)\}", said)
    assert (
        len(hops) >= 7
        and int(hops[0], 16) == int(f.node_guid[f.cas[0]])
        and int(hops[-1], 16) == int(f.node_guid[f.cas[-1]])
    )
    far = int(f.lid[ends[-1]])
    guid = int(f.port_guid[ends[-1]])
    said = tool("ibaddr", str(far))
    low = "".join(f"{guid >> shift & 0xFFFF:x}:" for shift in (48, 32, 16, 0)).rstrip(":")
    assert f"fe80::{low}" in said and f"{far:#x}" in said.lower()
    assert str(int(f.lid[ends[0]])) in tool("ibaddr", "-l") or f"{int(f.lid[ends[0]]):#x}" in tool("ibaddr", "-l")


def test_ibportstate_query_reset_speed_and_width(served, tool):
    f, port = served.fabric, an_uplink(served.fabric)
    peer = int(f.port_peer[port])
    lid, num = of_switch(f, port)
    said = tool("ibportstate", lid, num, "query")
    assert ("LinkState:.......................Active" in said and "PeerPort" in said.replace(" ", "")) or "Peer" in said
    tool("ibportstate", lid, num, "width", "1")
    assert int(PortInfo.link_width_enabled.get(f.port_info[port])) == 1
    tool("ibportstate", lid, num, "reset")
    assert f.port_state[port] == f.port_state[peer] == 2, "trained anew"
    assert (
        int(PortInfo.link_width_active.get(f.port_info[port]))
        == int(PortInfo.link_width_active.get(f.port_info[peer]))
        == 1
    )
    tool("ibportstate", lid, num, "width", "3")
    tool("ibportstate", lid, num, "espeed", "1")
    tool("ibportstate", lid, num, "reset")
    active = fields(tool("ibportstate", lid, num))
    assert active["LinkWidthActive"] == "4X" and active["LinkSpeedExtActive"] == "14.0625 Gbps", active
    tool("ibportstate", lid, num, "disable")
    assert f.port_state[port] == f.port_state[peer] == 1
    tool("ibportstate", lid, num, "espeed", "30")
    tool("ibportstate", lid, num, "enable")
    assert wait_for(lambda: f.port_state[port] == 2)
    for end in (port, peer):
        lid, n = of_switch(f, end)
        tool("ibportstate", lid, n, "arm")
    for end in (port, peer):
        lid, n = of_switch(f, end)
        tool("ibportstate", lid, n, "active")
    assert f.port_state[port] == f.port_state[peer] == 4


def test_vendstat(served, tool):
    lid, num = of_switch(served.fabric, an_uplink(served.fabric))
    assert "fw_version" in tool("vendstat", "-N", lid) and "counter groups" in tool("vendstat", "-i", lid, num)
    assert "Unsupported device ID" in tool("vendstat", "-w", lid, code=255), "as hardware that is no InfiniScale"


def test_ibccquery_and_ibccconfig(served, tool):
    f = served.fabric
    lid, _ = of_switch(f, an_uplink(f))
    tool("ibccconfig", "SwitchCongestionSetting", lid, "0x1f", "0x1e", "0x6", "0xf", "8", "3", "1:5", "77")
    shown = fields(tool("ibccquery", "SwitchCongestionSetting", lid))
    assert int(shown["Threshold"], 16) == 15 and shown["Marking_Rate"] == "77"


@pytest.mark.parametrize(
    ("server", "client"), [(("ibping", "-S"), ("ibping", "-c", "3")), (("ibsysstat", "-S"), ("ibsysstat",))]
)
def test_a_server_on_one_host_and_its_client_on_another(server, client, served, stock, tool, tmp_path):
    f = served.fabric
    there = f.node_name(int(f.cas[5]))
    lid = str(int(f.lid[int(f.node_base[f.cas[5]]) + 1]))
    earlier = list(served.server.clients.values())  # of these some may have ended, and are not forgotten yet
    start = lambda: subprocess.Popen(
        [stock(server[0]), *server[1:]],
        env=served.environment(there),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running, said = [start()], [""]

    def answered() -> bool:
        """A server dies of a request that comes before it has registered its class: then another one is started."""
        if running[-1].poll() is not None:
            running.append(start())
        code, now = run(tmp_path, served.environment(), stock(client[0]), *client[1:], lid, seconds=240)
        said.append(now)
        return code == 0 and (", 0% packet loss" in now or "sysstat ping succeeded" in now)

    try:
        assert wait_for(lambda: any(all(c is not e for e in earlier) for c in list(served.server.clients.values())))
        assert wait_for(answered), said
    finally:
        for one in running:
            one.kill()
            one.wait()


# -- speeds --


SHOWN = {
    "SDR": ({"SDR"}, {"2.5 Gbps"}),
    "DDR": ({"DDR"}, {"5.0 Gbps"}),
    "QDR": ({"QDR"}, {"10.0 Gbps"}),
    "FDR10": ({"FDR10"}, {"10.0 Gbps"}),
    "FDR": ({"FDR"}, {"14.0625 Gbps"}),
    "EDR": ({"EDR"}, {"25.78125 Gbps"}),
    "HDR": ({"HDR"}, {"53.125 Gbps"}),
    "NDR": ({"NDR"}, {"106.25 Gbps"}),
    "XDR": ({"QDR"}, {"10.0 Gbps"}),
    "GDR": ({"QDR"}, {"10.0 Gbps"}),
}
"""Generation → (what ibnetdiscover calls it, what iblinkinfo shows). The tools' tables end at NDR: of XDR and GDR they
read the four old bits, where such a link says QDR (IBA 14.2.5.6)."""


@pytest.mark.parametrize("generation", [s.name for s in SPEEDS])
def test_speeds_as_ibnetdiscover_and_iblinkinfo_know_them(generation, stock, tmp_path):
    """infiniband-diags 44 names speeds up to NDR; of XDR it knows no code and shows what it falls back to."""
    s = Serving(generate("fat-tree", radix=4, levels=2, generation=generation))
    try:
        s.do(lambda: bring_up(s.fabric, plane=s.router.plane))
        code, said = run(tmp_path, s.environment(), stock("ibnetdiscover"))
        named = set(re.findall(r"4x(\w+)", said))
        code2, links = run(tmp_path, s.environment(), stock("iblinkinfo"))
        gbps = set(re.findall(r"4X\s+([\d.]+ Gbps)", links))
        print(generation, named, gbps)
        assert code == code2 == 0 and len(named) == len(gbps) == 1
        assert (named, gbps) == SHOWN[generation]
    finally:
        s.stop()
