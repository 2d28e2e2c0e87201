"""What stock tools write, option by option and under either preload library: ibportstate, vendstat, ibccquery and ibccconfig, ibping and
ibsysstat; GUIDInfo, the optimized SLtoVL table and M_Keys by a program over libibumad. The oracle is the fabric's arrays.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from tests.live.ibsim.tools.tool_answers import named
from tests.live.ibsim.tools.tool_lab import STOCK_FIRST, Lab, fields, in_turn
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock
PROGRAM = Path(__file__).with_name("trap_program.py")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """No device sends a trap, so our manager does not sweep: what a tool writes stays."""
    one = Lab(generate("fat-tree", radix=4, levels=2, generation="HDR"), tmp_path_factory.mktemp("writes"))
    info = one.f.port_info
    PortInfo.cap_mask.set(info, PortInfo.cap_mask.get(info) & ~np.uint32(CapMask.TRAP))
    yield one
    one.stop()


def said_by(lab: Lab, library: str, *words: object, code: int = 0, node: str = "") -> str:
    got, said = lab.tool(library, *(str(w) for w in words), node=node)
    assert got == code, (words, said[-2000:])
    return said


def link(lab: Lab) -> tuple[int, int, int, int]:
    """Port 2 of the second leaf and the host behind it: (port, peer, LID, peer's LID). No way to a switch is over it."""
    port = named(lab.f, "leaf-2") + 2
    peer = int(lab.f.port_peer[port])
    return port, peer, lab.lid(port), lab.lid(peer)


# (operation and its value) → the field of PortInfo that it sets, what it reads then. Undone by the third.
SETS = (
    ("speed 1", "link_speed_enabled", 1, "speed 7"),
    ("espeed 2", "link_speed_ext_enabled", 2, "espeed 7"),
    ("width 1", "link_width_enabled", 1, "width 3"),
    ("vls 2", "operational_vls", 2, "vls 4"),
    ("mtu 3", "neighbor_mtu", 3, "mtu 5"),
)
SETS_OF_A_CA = (
    ("lid 0x99", "lid", 0x99, "lid {lid}"),
    ("smlid 0x42", "master_sm_lid", 0x42, "smlid 1"),
    ("lmc 1", "lmc", 1, "lmc 0"),
    ("mkeylease 7", "mkey_lease_period", 7, "mkeylease 0"),
    ("mkeyprot 1", "mkey_protect", 1, "mkeyprot 0"),
)


@pytest.mark.parametrize(("row", "library"), in_turn(list(SETS)))
def test_ibportstate_sets_a_switch_port(row, library, lab):
    operation, field, want, undo = row
    port, _, lid, _ = link(lab)
    before = lab.f.port_info.copy()
    said_by(lab, library, "ibportstate", lid, 2, *operation.split())
    assert int(getattr(PortInfo, field).get(lab.f.port_info[port])) == want
    changed = np.flatnonzero((before != lab.f.port_info).any(axis=1)).tolist()
    assert changed == [port], "and no other"
    said_by(lab, library, "ibportstate", lid, 2, *undo.split())
    assert (before == lab.f.port_info).all()


@pytest.mark.parametrize(("row", "library"), in_turn(list(SETS_OF_A_CA)))
def test_ibportstate_sets_a_host_port(row, library, lab):
    operation, field, want, undo = row
    f, port = lab.f, named(lab.f, "host-0005")
    lid = lab.lid(port)
    route = ["-D", "0,1,3,3,1"] if operation.startswith("lid") else [lid]
    if operation.startswith("lid"):  # the way of a directed route to it: it loses its LID
        route = ["-D", directed(lab, "host-0001", port)]
    said_by(lab, library, "ibportstate", *route, 1, *operation.split())
    assert int(getattr(PortInfo, field).get(f.port_info[port])) == want
    said_by(lab, library, "ibportstate", *route, 1, *undo.format(lid=lid).split())
    assert int(getattr(PortInfo, field).get(f.port_info[port])) != want and lab.lid(port) == lid


def directed(lab: Lab, first: str, goal: int) -> str:
    """The directed route from host ``first`` to port ``goal``, by the tables."""
    f = lab.f
    port, hops = int(f.port_peer[named(f, first)]), ["0", "1"]
    while f.is_switch[f.port_node[port]]:
        node = f.port_node[port]
        out = int(f.lft[f.switch_of_node[node], f.lid[goal]])
        hops.append(str(out))
        port = int(f.port_peer[f.node_base[node] + out])
    assert port == goal
    return ",".join(hops)


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_ibportstate_query_states_and_addresses(library, lab):
    """query; disable, enable, off, on, down, arm, active, reset; by LID, GUID and route; fdr10 has no such port."""
    f = lab.f
    port, peer, lid, far = link(lab)
    for address in (
        ["-L", lid],
        ["-G", lab.guid(port)],
        ["-D", directed(lab, "host-0001", named(f, "host-0003")).rsplit(",", 1)[0]],
    ):
        told = fields(said_by(lab, library, "ibportstate", *address, 2, "query"))
        assert (
            told["LinkState"] == "Active" and told["PhysLinkState"] == "LinkUp" and told["LinkWidthActive"] == "4X"
        ), address
    both_up = lambda *states: wait_for(lambda: (int(f.port_state[port]), int(f.port_state[peer])) == states)

    def activate():
        for state in ("arm", "active"):
            for where, number in ((lid, 2), (far, int(f.port_num[peer]))):
                said_by(lab, library, "ibportstate", where, number, state)

    for down, up in (("disable", "enable"), ("off", "on")):
        said_by(lab, library, "ibportstate", lid, 2, down)
        assert both_up(1, 1)
        assert int(PortInfo.port_phys_state.get(f.port_info[port])) == 3
        said_by(lab, library, "ibportstate", lid, 2, up)
        assert both_up(2, 2)
    activate()
    assert both_up(4, 4)
    said_by(lab, library, "ibportstate", lid, 2, "down")
    assert both_up(2, 2), "a link that is made Down trains again (IBA 14.2.5.6)"
    activate()
    said_by(lab, library, "ibportstate", lid, 2, "reset")
    assert both_up(2, 2)
    activate()
    assert both_up(4, 4)
    before = f.port_mlnx_speed.copy()
    lab.tool(library, "ibportstate", str(lid), "2", "fdr10", "1")
    assert (f.port_mlnx_speed[:, 1] <= np.maximum(before[:, 0], before[:, 1])).all(), (
        "nobody enables what it does not support"
    )
    f.port_mlnx_speed[:] = before


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_mkey_by_ibportstate_and_its_lease(library, lab):
    """Without the key nobody writes; with protection 2 nobody reads; the lease runs out and lets everybody read."""
    f = lab.f
    leaf = named(f, "leaf-3")
    lid = lab.lid(leaf)
    patience = ["-t", "300"]
    said_by(lab, library, "ibportstate", lid, 0, "mkey", "0xabc", "mkeyprot", 2, "mkeylease", 600)
    before = f.port_info[leaf].copy()
    for key in ([], ["-y", "0x77"]):
        said_by(lab, library, "ibportstate", *patience, *key, lid, 0, "lmc", 1, code=255)
    assert int(PortInfo.lmc.get(f.port_info[leaf])) == 0
    at = PortInfo.mkey_violations.byte
    same = np.delete(f.port_info[leaf] == before, [at, at + 1])
    assert same.all() and int(PortInfo.mkey_violations.get(f.port_info[leaf])) >= 2
    assert "leaf-3" in said_by(lab, library, "smpquery", "-y", "0xabc", "nodedesc", lid), (
        "the right key stops the lease"
    )
    assert "leaf-3" not in said_by(lab, library, "smpquery", *patience, "nodedesc", lid, code=255)
    told = fields(said_by(lab, library, "ibportstate", "-K", "-y", "0xabc", lid, 0, "query"))
    assert int(told["Mkey"], 16) == 0xABC, told
    said_by(lab, library, "ibportstate", "-y", "0xabc", lid, 0, "mkeylease", 1)
    ask = ("smpquery", "-t", "50", "nodedesc", str(lid))  # without the key: the lease begins anew
    assert wait_for(lambda: "leaf-3" in lab.tool(library, *ask)[1]), "the lease is over after a second"
    assert int(PortInfo.mkey_protect.get(f.port_info[leaf])) == 0
    said_by(lab, library, "ibportstate", "-y", "0xabc", lid, 0, "mkey", "0", "mkeylease", 0)
    PortInfo.mkey_violations.set(f.port_info, 0, [leaf])


def smp(
    lab: Lab, library: str, lid: int, method: int, attr: int, modifier: int = 0, data: bytes = b"", key: int = 0
) -> bytes | None:
    """Data of the answer to an SMP of the program, None where nobody answers."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            str(PROGRAM),
            "smp",
            str(lid),
            str(method),
            hex(attr),
            hex(modifier),
            data.hex(),
            hex(key),
        ],
        env=lab.environment(library),
        cwd=lab.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return None if done.stdout.strip() == "none" else bytes.fromhex(done.stdout.strip())


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_a_set_of_guid_info_is_stored_and_seen(library, lab):
    f, port = lab.f, named(lab.f, "host-0002")
    lid, base = lab.lid(port), int(f.guid_base[named(lab.f, "host-0002")])
    alias = 0x0123456789ABCDEF
    data = bytes(8) + alias.to_bytes(8, "big") + bytes(48)
    got = smp(lab, library, lid, 2, 0x14, 0, data)
    assert got is not None and int.from_bytes(got[8:16], "big") == alias
    assert int.from_bytes(got[:8], "big") == int(f.port_guid[port]), "entry 0 is the hardware's"
    assert int(f.guids[base + 1]) == alias
    assert f"0x{alias:016x}" in said_by(lab, library, "smpquery", "guidinfo", lid)
    smp(lab, library, lid, 2, 0x14, 0, bytes(64))
    assert int(f.guids[base + 1]) == 0


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_an_optimized_sl2vl_set_reaches_all_its_ports(library, lab):
    """AttributeModifier bit 17: for all input ports; bit 16: to all output ports (IBA 14.2.5.8)."""
    f, leaf = lab.f, named(lab.f, "leaf-2")
    lid, n = lab.lid(leaf), int(f.node_nports[f.port_node[named(lab.f, "leaf-2")]])
    base = int(f.sl2vl_base[leaf])
    before = f.sl2vl[base : base + (n + 1) ** 2].copy()
    table = bytes.fromhex("0011223301230123")
    assert smp(lab, library, lid, 2, 0x17, 0x30000, table + bytes(56)) is not None
    shown = said_by(lab, library, "smpquery", "sl2vl", lid, 2)
    rows = re.findall(r"in +(\d+), out +2: +\|(.*)\|", shown)
    want = [v for octet in table for v in (octet >> 4, octet & 15)]
    assert len(rows) == n + 1 and all([int(v) for v in r.strip("|").split("|")] == want for _, r in rows), shown
    f.sl2vl[base : base + (n + 1) ** 2] = before


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_vendstat_every_option(library, lab):
    """-N and -i answer; -w, -R and -W are InfiniScale III's and -c InfiniScale IV's: ours are neither, and say so at once."""
    _, _, lid, _ = link(lab)
    device = int(lab.f.device_id[lab.f.port_node[named(lab.f, "leaf-2")]])
    told = said_by(lab, library, "vendstat", "-N", lid)
    assert f"hw_dev_id:   {device:#06x}" in told and "fw_version:" in told and "fw_psid:     'SOFTIB'" in told
    assert (
        said_by(lab, library, "vendstat", "-N", "-G", lab.guid(named(lab.f, "leaf-2"))).splitlines()[1]
        == told.splitlines()[1]
    )
    assert "0 counter groups" in said_by(lab, library, "vendstat", "-i", lid, 3)
    assert "Unsupported device ID" in said_by(lab, library, "vendstat", "-w", lid, code=255)
    for words in (("-c", "0,1", lid, 3), ("-R", "0x10,0xff", lid), ("-W", "0x10,1,0xff", lid)):
        assert "failure" in said_by(lab, library, "vendstat", *words)


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_ibccconfig_and_ibccquery_every_operation(library, lab):
    f = lab.f
    _, _, lid, _ = link(lab)
    host = lab.lid(named(f, "host-0004"))
    ask = lambda *words: fields(said_by(lab, library, "ibccquery", *words))
    config = lambda *words: said_by(lab, library, "ibccconfig", *words)
    assert (
        ask("ClassPortInfo", lid)["ClassVersion"]
        == "2"
        == ask("CP", "-G", lab.guid(named(f, "leaf-2")))["ClassVersion"]
    )
    assert ask("CongestionInfo", host)["ControlTableCap"] == "2"
    config("SwitchCongestionSetting", lid, "0x1f", "0x1e", "0x6", "0xf", "8", "3", "1:5", "77")
    told = ask("SwitchCongestionSetting", lid)
    assert int(told["Threshold"], 16) == 15 and told["Packet_Size"] == "8" and told["Marking_Rate"] == "77"
    config("SwitchPortCongestionSetting", lid, 3, 1, 0, 9, 2, 500)
    assert ask("SwitchPortCongestionSetting", lid, 3)["Cong_Parm_Marking_Rate"] == "500"
    config("CACongestionSetting", host, 0, "0x6", 150, 1, 2, 3)
    assert re.findall(r"CCTI_Timer:\.+(\d+)", said_by(lab, library, "ibccquery", "CACongestionSetting", host))[:3] == [
        "0",
        "150",
        "150",
    ]
    entries = [f"{i % 4}:{i * 3}" for i in range(64)]
    config("CongestionControlTable", host, 63, 0, *entries)
    said = said_by(lab, library, "ibccquery", "CongestionControlTable", host)
    shown = zip(re.findall(r"CCT_Shift:\.+(\d+)", said), re.findall(r"CCT_Multiplier:\.+(\d+)", said), strict=True)
    assert [f"{a}:{b}" for a, b in shown][:64] == entries
    assert "LogType" in said_by(lab, library, "ibccquery", "CongestionLog", lid) and "Timestamp" in ask(
        "Timestamp", lid
    )
    config("CongestionKeyInfo", host, "0xabc", 0, 0, 0)
    port = named(f, "host-0004")
    assert int.from_bytes(bytes(f.cc_key_info[port, :8]), "big") == 0xABC
    assert int(fields(said_by(lab, library, "ibccquery", "-c", "0xabc", "CK", host))["CC_Key"], 16) == 0xABC
    f.cc_key_info[port] = 0


@pytest.mark.parametrize("library", STOCK_FIRST)
@pytest.mark.parametrize(
    ("server", "clients"),
    [
        pytest.param(
            ("ibping", "-S"),
            (
                ("ibping", "-c", "2"),
                ("ibping", "-c", "2", "-L"),
                ("ibping", "-c", "20", "-f"),
                ("ibping", "-c", "1", "-G"),
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("ibping", "-S", "-o", "0x1405"), (("ibping", "-c", "2", "-o", "0x1405"),), marks=pytest.mark.slow
        ),
        (("ibsysstat", "-S"), (("ibsysstat",), ("ibsysstat", "-G"))),
    ],
    ids=["ibping", "ibping-oui", "ibsysstat"],
)
def test_a_server_and_its_clients(server, clients, library, lab, stock):
    """Under the stock library a server dies of a request that comes before it has registered its class: then another one is
    started."""
    port = named(lab.f, "host-0006")
    start = lambda: subprocess.Popen(
        [stock(server[0]), *server[1:]],
        env=lab.environment(library, "host-0006"),
        cwd=lab.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running = [start()]

    def good(words: tuple[str, ...]) -> bool:
        if running[-1].poll() is not None:
            running.append(start())
        return answered(lab.tool(library, *words), words[-1])

    try:
        for client in clients:
            to = f"{int(lab.f.port_guid[port]):#x}" if client[-1] == "-G" else str(lab.lid(port))
            for operation in ("ping", "host", "cpu") if client[0] == "ibsysstat" else ("",):
                words = (*client, to, *operation.split())
                assert wait_for(lambda words=words: good(words)), words
    finally:
        for one in running:
            one.kill()
            one.wait()


def answered(got: tuple[int, str], operation: str) -> bool:
    code, said = got
    if operation in ("ping", "host", "cpu"):
        words = {"ping": "sysstat ping succeeded", "host": r"\S", "cpu": r"\S"}[operation]
        return code == 0 and bool(re.search(words, said)) and "rror" not in said
    return code == 0 and ", 0% packet loss" in said
