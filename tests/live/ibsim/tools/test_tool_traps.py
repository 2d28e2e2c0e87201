"""Traps of devices raised by their causes, and received by stock OpenSM under the stock preload library: its log names each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from tests.live.ibsim.tools.tool_answers import named
from tests.live.ibsim.tools.tool_lab import Lab
from tests.live.ibsim.tools.trap_listener import Heard, Listener
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock


@pytest.fixture(scope="module", params=["stock", pytest.param("own", marks=pytest.mark.slow)])
def heard(request, tmp_path_factory):
    import shutil

    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin") or pytest.skip("opensm is not installed")
    lab = Lab(
        generate("fat-tree", radix=4, levels=2, generation="QDR"), tmp_path_factory.mktemp("traps"), sm="external"
    )
    one = Heard(lab, opensm, request.param)
    one.library = request.param
    yield one
    one.sm.kill()
    one.sm.wait()
    lab.stop()


@pytest.fixture
def far(heard):
    """(the last host's port, the switch port before it, both LIDs), its link good and up before and after."""
    lab = heard.lab
    port = named(lab.f, "host-0008")
    edge = int(lab.f.port_peer[port])
    assert wait_for(lambda: lab.f.port_state[edge] == 4 and heard.rests())
    heard.forget()
    yield port, edge, lab.lid(port), lab.lid(edge)
    assert wait_for(heard.rests)
    lab.fault("clear", lab.f.port_name(edge))
    assert wait_for(lambda: lab.f.port_state[edge] == 4)


def poke(heard: Heard, lid: int) -> None:
    """One GMP from the second host to ``lid``, whether it is answered or not."""
    heard.lab.tool("stock", "perfquery", "-t", "500", str(lid), "1", node="host-0002")


def test_128_a_link_falls(heard, far):
    _, edge, _, lid = far
    heard.lab.fault("link-down", heard.lab.f.port_name(edge))
    told = heard.of(128)[0]
    assert (told["type"][0], told["prod_type"][0]) == ("1", "2") and told["sw_lid"] == str(lid)


def test_129_packets_with_bit_errors_cross_LocalPhyErrors(heard, far):
    port, edge, lid, switch = far
    f = heard.lab.f
    heard.lab.fault("ber", f.port_name(edge), ber=5e-4)  # three in four MADs are spoiled
    before = int(f.counters["local_link_integrity_errors"][[port, edge]].sum())
    for _ in range(20):
        poke(heard, lid)
        if f.counters["local_link_integrity_errors"][[port, edge]].sum() > before:
            break
    heard.lab.fault("ber", f.port_name(edge), ber=0)  # or the trap of the host would not get through
    told = heard.of(129)[0]
    assert (int(told["lid"]), int(told["port_num"])) in ((switch, int(f.port_num[edge])), (lid, 1))


def test_130_a_buffer_overruns(heard, far):
    port, _, lid, _ = far
    f = heard.lab.f
    heard.lab.fault("slow-port", f.port_name(port), gbps=0, overrun=True)
    poke(heard, lid)
    told = heard.of(130)[0]
    assert told["lid"] == str(lid) and told["port_num"] == "1" and told["prod_type"][0] == "1"
    assert f.counters["excessive_buffer_overrun_errors"][port] >= 1
    heard.lab.fault("clear", f.port_name(port))
    code, said = heard.lab.tool("stock", "perfquery", "-E", str(lid), "1", node="host-0002")
    assert code == 0 and int(re.search(r"PortBufferOverrunErrors:\.+(\d+)", said)[1]) >= 1


def test_131_flow_control_updates_come_too_late(heard, far):
    port, edge, _, switch = far
    f = heard.lab.f
    heard.lab.fault("ber", f.port_name(edge), ber=1e-2)
    told = heard.of(131)[0]  # the switch's; the host's own is lost on its link
    assert told["lid"] == str(switch) and told["port_num"] == str(int(f.port_num[edge]))
    heard.lab.fault("ber", f.port_name(edge), ber=0)
    late = f.vl_counters["port_vl_xmit_flow_ctl_update_errors"][edge]
    assert late.any() and f.counters["link_error_recovery_counter"][port] >= late.sum()


def test_144_a_description_and_a_manager_change(heard, far):
    lab, (port, _, lid, _) = heard.lab, far
    f = lab.f
    node = f.node_names().index("leaf-2")
    lab.do(lambda: (lab.plane.describe(node, "leaf-2", lab.now_ps()), lab.daemon_.router.traps(lab.now_ps())))
    told = heard.of(144, lid=lab.lid(int(f.node_base[node])))[0]
    assert told["local_changes"] == "1"
    assert int(told["change_flags"], 0) == 1 and told["prod_type"][0] == "2"
    heard.forget()
    lab.do(lambda: (lab.plane.set_is_sm(port, True, lab.now_ps()), lab.daemon_.router.traps(lab.now_ps())))
    told = heard.of(144, lid=lid)[0]
    assert int(told["new_cap_mask"], 16) & int(CapMask.IS_SM), told
    lab.do(lambda: (lab.plane.set_is_sm(port, False, lab.now_ps()), lab.daemon_.router.traps(lab.now_ps())))


def test_145_a_system_image_guid_changes(heard, far):
    lab = heard.lab
    node = lab.f.node_names().index("leaf-2")
    built = int(lab.f.sys_guid[node])
    lab.fault("sys-guid", "leaf-2", guid="0x1234")
    told = heard.of(145)[0]
    assert told["lid"] == str(lab.lid(int(lab.f.node_base[node]))) and int(told["new_sys_guid"], 16) == 0x1234
    lab.fault("clear", "leaf-2")
    assert wait_for(lambda: int(heard.of(145)[-1]["new_sys_guid"], 16) == built)


def test_256_an_smp_with_the_wrong_mkey(heard, far):
    """By LID and by directed route; the right key changes what the wrong one did not."""
    lab, f = heard.lab, heard.lab.f
    leaf = named(f, "leaf-4")
    PortInfo.mkey.set(f.port_info, 0xABC, [leaf])
    PortInfo.mkey_protect.set(f.port_info, 1, [leaf])  # who can read the key, as OpenSM when it sweeps, may change it
    asker = lab.lid(named(f, "host-0002"))
    try:
        for key in ([], ["-y", "0x77"]):
            heard.forget()
            code, _ = lab.tool(
                "stock", "ibportstate", "-t", "500", *key, str(lab.lid(leaf)), "0", "lmc", "1", node="host-0002"
            )
            assert code != 0 and int(PortInfo.lmc.get(f.port_info[leaf])) == 0
            # OpenSM does not know this key, so its TrapRepress is a wrong SMP too, and is told of.
            told = heard.of(256, attr_id=0x15, m_key=0x77 if key else 0, lid=asker)[0]
            assert told["prod_type"][0] == "2", told
    finally:
        PortInfo.mkey.set(f.port_info, 0, [leaf])
        PortInfo.mkey_protect.set(f.port_info, 0, [leaf])
        PortInfo.mkey_violations.set(f.port_info, 0, [leaf])


def in_partition(f, port: int, *pkeys: int) -> np.ndarray:
    """The P_Key table of ``port`` holds ``pkeys``; returns what it held."""
    first, n = int(f.pkey_base[port]), int(f.pkey_cap[port])
    before = f.pkeys[first : first + n].copy()
    f.pkeys[first : first + n] = 0
    f.pkeys[first : first + len(pkeys)] = pkeys
    return before


def test_257_a_packet_with_the_wrong_pkey(heard, far):
    port, _, lid, _ = far
    lab, f = heard.lab, heard.lab.f
    before = in_partition(f, port, 0x8123)
    try:
        poke(heard, lid)
        told = heard.of(257)[0]
        assert told["lid1"] == str(lab.lid(named(f, "host-0002"))) and told["lid2"] == str(lid)
        assert int(told["key"], 16) & 0xFFFF == 0xFFFF and int(told["qp2"], 16) == 1
        assert int(PortInfo.pkey_violations.get(f.port_info[port])) >= 1
    finally:
        in_partition(f, port, *before.tolist())


def test_259_a_switch_refuses_a_packet_for_its_pkey(heard, far):
    _, edge, lid, switch = far
    f = heard.lab.f
    before = in_partition(f, edge, 0x8123)
    enforcing = int(PortInfo.partition_enforcement_outbound.get(f.port_info[edge]))
    PortInfo.partition_enforcement_outbound.set(f.port_info, 1, [edge])
    try:
        dropped = int(f.counters["port_xmit_constraint_errors"][edge])
        poke(heard, lid)
        told = heard.of(259)[0]
        assert told["lid2"] == str(lid) and int(told["pkey"], 16) == 0xFFFF, told
        assert told["sw_lid"] == str(switch) and told["port_no"] == str(int(f.port_num[edge]))
        assert f.counters["port_xmit_constraint_errors"][edge] > dropped
    finally:
        in_partition(f, edge, *before.tolist())
        PortInfo.partition_enforcement_outbound.set(f.port_info, enforcing, [edge])


# -- what the subnet administrator tells (IBA 13.4.11, 15.2.5.1) --

MGID = "ff12401bffff0000000000000000beef"


@pytest.mark.parametrize("library", ["stock", pytest.param("own", marks=pytest.mark.slow)])
def test_64_to_67_and_the_traps_of_devices_are_reported_to_whoever_subscribed(library, tmp_path):
    lab = Lab(generate("fat-tree", radix=4, levels=2, generation="QDR"), tmp_path)
    f = lab.f
    sm = str(lab.lid(named(f, "host-0001")))
    gid = lambda name: f"fe80000000000000{int(f.port_guid[named(f, name)]):016x}"
    one = Listener(lab, library, "subscribe", sm, node="host-0003")
    other = None
    try:
        one.says("subscribed")
        other = Listener(lab, library, "group", sm, gid("host-0005"), MGID, node="host-0005")
        other.says("joined")
        one.says(f"trap 66 issuer {sm} gid {MGID}")
        other.program.stdin.close()
        other.says("left")
        one.says(f"trap 67 issuer {sm} gid {MGID}")
        edge = int(f.port_peer[named(f, "host-0008")])
        lab.fault("link-down", f.port_name(edge))
        one.says(f"trap 128 issuer {lab.lid(edge)}")
        one.says(f"trap 65 issuer {sm} gid {gid('host-0008')}")
        lab.fault("link-up", f.port_name(edge))
        one.says(f"trap 64 issuer {sm} gid {gid('host-0008')}")
    finally:
        for program in filter(None, (one, other)):
            program.stop()
        lab.stop()
