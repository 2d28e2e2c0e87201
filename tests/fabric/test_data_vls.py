"""Data VLs of devices: 1 to 15, as PortInfo says them (IBA 14.2.5.6), from the fabric file to tables, packets and OpenSM."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.power_cycle import set_data_vls
from softib.fabric.topologies.registry import generate
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.iba.smp import PortInfo
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import vls_of
from softib.sim.messages import messages
from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions

QOS = "qos TRUE\nqos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\nqos_vlarb_high 0:0\nqos_vlarb_low " + ",".join(
    f"{vl}:65" for vl in range(15)
)


def with_vls(count: int, **parameters):
    fabric = generate("torus", dims=[5, 5], hosts_per_switch=2, **parameters)
    set_data_vls(fabric, count)
    return fabric


def external(fabric):
    return (fabric.port_num > 0) & (fabric.port_peer >= 0)


@pytest.mark.parametrize(("count", "code"), [(1, 1), (2, 2), (4, 3), (8, 4), (15, 5)])
def test_a_manager_configures_what_the_devices_have(count, code):
    fabric = with_vls(count)
    bring_up(fabric, "updn")
    ports = external(fabric)
    assert (PortInfo.vl_cap.get(fabric.port_info)[ports] == code).all()
    assert (PortInfo.operational_vls.get(fabric.port_info)[ports] == code).all()


def test_a_link_operates_what_both_ends_have():
    fabric = with_vls(15)
    narrow = int(np.flatnonzero(external(fabric) & fabric.is_switch[fabric.port_node])[0])
    PortInfo.vl_cap.set(fabric.port_info, 3, np.array([narrow]))
    bring_up(fabric, "updn")
    vls = PortInfo.operational_vls.get(fabric.port_info)
    assert vls[narrow] == vls[fabric.port_peer[narrow]] == 3
    others = external(fabric)
    others[[narrow, int(fabric.port_peer[narrow])]] = False
    assert (vls[others] == 5).all()


@pytest.mark.parametrize("engine", ["dfsssp", "lash", "nue"])
@pytest.mark.parametrize("count", [1, 2, 15])
def test_an_engine_uses_no_vl_that_a_link_has_not(engine, count):
    """With few VLs lash and dfsssp cannot be free of credit loops on a torus, and say so; what they programmed for eight would be dropped."""
    up = bring_up(with_vls(count), engine)
    sl2vl, most = vls_of(up.fabric, up.graph)
    assert up.routing.vls <= count
    proof = verify(up.graph, up.fabric.lft[:, : up.graph.lft_size], up.routing.path_sl, sl2vl, most)
    assert proof.ca_ca.lost == 0, "no packet is dropped for its VL"
    if up.routing.engine == engine:
        assert proof.deadlock_free
    else:
        assert up.routing.engine == "minhop" and engine != "nue" and count < 15
        assert any(f"more than the {count} data VL" in note for note in up.routing.notes)


def test_fifteen_lanes_share_a_link_by_their_weights():
    """15 hosts, each on its own SL and VL, under saturation of one port: a fifteenth each (an arbitration table of 8 entries could not)."""
    from softib.sm.config import config_of
    from softib.sm.options.file import read_options

    fabric = generate("fat-tree", radix=32, levels=1, hosts=16, generation="EDR")
    set_data_vls(fabric, 15)
    bring_up(fabric, config=config_of(read_options(QOS).options | {"engine": "minhop"}))
    src = np.repeat(np.arange(1, 16), 400)
    sent = messages(src, 0, 4096, qp=src, sl=src - 1)
    out = run(fabric, sent, PacketOptions(profile={"message_gap_ns": 0, "pcie_gbps": 1e6}, until_ps=6 * 10**8))
    late = (out.arrived_ps > 10**8) & (out.arrived_ps < 5 * 10**8)
    got = np.bincount(src[late], minlength=16)[1:]
    assert got / got.sum() == pytest.approx(np.full(15, 1 / 15), rel=0.05)


def test_the_fabric_file_says_it(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("data_vls: 15\ntopology: {kind: ring, switches: 4}\n")
    fabric = load_fabric_yaml(file).fabric
    ports = external(fabric)
    assert (PortInfo.vl_cap.get(fabric.port_info)[ports] == 5).all()
    assert (PortInfo.vl_arb_low_cap.get(fabric.port_info)[ports] == 15).all()
    file.write_text("data_vls: 3\ntopology: {kind: ring, switches: 4}\n")
    with pytest.raises(InputError, match=r"f\.yaml:1: data_vls"):
        load_fabric_yaml(file)


def test_another_count_is_one_line():
    with pytest.raises(InputError, match="7 data VLs are not possible; use 1, 2, 4, 8 or 15"):
        set_data_vls(generate("ring", switches=3), 7)
