"""QoS of the manager: what options say stands in every table, as stock OpenSM with the same file writes it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import softib
from softib.agents.plane import AgentPlane
from softib.diags.finding import Severity
from softib.errors import InputError
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo, SwitchInfo
from softib.live.internal_sm.settings import ManagerSettings
from softib.routing.engine import Routing
from softib.sm.config import SmConfig, config_of
from softib.sm.managers.partitions import parse_partitions
from softib.sm.options.file import read_options
from softib.sm.options.qos import KINDS, QosConfig
from softib.sm.subnet_manager import SubnetManager
from softib.sm.sweep import sweep
from tests.live.internal_sm.runs import one_pass
from tests.live.serving import PRELOAD, Serving
from tests.sm.wire import settle

TEN = ",".join(str(vl % 5) for vl in range(16))
FILES = {
    "defaults": "qos TRUE\n",
    "every": "qos TRUE\nqos_high_limit 4\nqos_vlarb_high 0:64,1:32,3:200\nqos_vlarb_low 0:1,1:2,2:3,7:255\n"
    f"qos_sl2vl {TEN}\n",
    "kinds": "qos TRUE\nqos_high_limit 9\nqos_ca_high_limit 3\nqos_ca_sl2vl 0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15\n"
    "qos_swe_vlarb_low 0:10,1:20,2:30\nqos_swe_high_limit 255\nqos_sw0_sl2vl 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n"
    "qos_rtr_high_limit 1\n",
    "long": "qos TRUE\nqos_vlarb_low " + ",".join(f"{i % 15}:{i}" for i in range(40)) + "\n",
    "four VLs": f"qos TRUE\nqos_sl2vl {','.join(map(str, range(16)))}\n",
}


def fabric(enhanced=False, name=""):
    f = generate("fat-tree", radix=4, levels=2)
    if name == "four VLs":
        PortInfo.vl_cap.set(f.port_info, 3)
        PortInfo.operational_vls.set(f.port_info, 3)
    f.node_type[f.cas[1]] = 3  # a router
    SwitchInfo.enhanced_port0.set(f.switch_info, int(enhanced))
    return f


def managed(f, text, **more):
    found, _ = read_options(text)
    sm = SubnetManager(config_of({**found, **more}))
    plane = AgentPlane(f)
    settle(sm, plane, int(f.port(f.cas[0], 1)))
    assert sm.report.problems == []
    return sm, plane


def sets(sm):
    return {k.removeprefix("Set "): n for k, n in sm.report.mads.items() if k in ("Set SL2VL", "Set VL_ARB")}


@pytest.mark.stock
@pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("enhanced", [False, True])
def test_our_tables_are_those_of_stock_opensm(name, enhanced, stock, tmp_path):
    theirs, ours = fabric(enhanced, name), fabric(enhanced, name)
    (tmp_path / "conf").write_text(FILES[name])
    serving = Serving(theirs)
    try:
        done = one_pass(
            stock("opensm"),
            serving.environment(theirs.node_name(int(theirs.cas[0]))),
            tmp_path / "osm",
            "-F",
            str(tmp_path / "conf"),
        )
    finally:
        serving.stop()
    assert done.up
    managed(ours, FILES[name])
    linked = np.flatnonzero(ours.linked)
    for port in [*linked, *ours.node_base[ours.switch_node]]:
        where = f"{ours.port_name(int(port))} {name}"
        assert (ours.vl_arb[port] == theirs.vl_arb[port]).all(), where
        n = 1 if not ours.is_switch[ours.port_node[port]] else int(ours.node_nports[ours.port_node[port]]) + 1
        rows = slice(int(ours.sl2vl_base[port]), int(ours.sl2vl_base[port]) + n)
        assert (ours.sl2vl[rows] == theirs.sl2vl[rows]).all(), where
    for field in (PortInfo.vl_high_limit, PortInfo.operational_vls):
        a, b = field.get(ours.port_info[linked]), field.get(theirs.port_info[linked])
        assert (a == b).all(), (field.name, a, b)


def test_tables_are_cut_to_the_vls_that_the_link_will_have():
    """OpenSM cuts to the VLs that the port had before this sweep, and names VLs that no longer operate."""
    f = fabric()
    managed(f, "max_op_vls 2\nqos TRUE\nqos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n")
    assert (PortInfo.operational_vls.get(f.port_info[f.linked]) == 2).all()
    rows = np.concatenate([f.sl2vl[f.sl2vl_base[p]] for p in np.flatnonzero(f.linked)])
    assert set(np.concatenate([rows >> 4, rows & 15]).tolist()) == {0, 1, 15}


def test_without_qos_the_devices_keep_their_tables_and_with_it_a_second_sweep_sends_nothing():
    f = fabric()
    before = f.sl2vl.copy()
    sm, _ = managed(f, "")
    assert sets(sm) == {} and (f.sl2vl == before).all() and not f.vl_arb.any()
    sm, plane = managed(f, FILES["every"])
    first = sets(sm)
    links = f.sizes.cables
    # A linked switch port is set once for all its inputs, each CA and router once; two VLArb tables each.
    assert first == {"SL2VL": 2 * links, "VL_ARB": 4 * links}
    sm.request_sweep()
    settle(sm, plane, int(f.port(f.cas[0], 1)))
    assert sets(sm) == {}


def test_a_link_that_came_up_anew_and_a_switch_that_was_reset_get_their_tables_again():
    f = fabric()
    sm, plane = managed(f, FILES["every"])
    port = int(f.port(f.cas[0], 1))
    uplink = int(f.cable_port[-1, 0])
    plane.set_link(uplink, False)
    plane.set_link(uplink, True)
    sm.request_sweep()
    settle(sm, plane, port)
    assert sets(sm) == {"SL2VL": 2, "VL_ARB": 4}


def test_a_switch_that_takes_no_wildcards_gets_a_table_for_each_input():
    f = fabric()
    SwitchInfo.optimized_sl2vl.set(f.switch_info, 0)
    sm, _ = managed(f, FILES["every"])
    inputs = int(f.node_nports[f.switch_node[0]]) + 1
    external = int((f.is_switch[f.port_node] & f.linked).sum())
    assert sets(sm)["SL2VL"] == external * inputs + (2 * f.sizes.cables - external)


def test_an_engine_that_gives_sls_and_vls_is_programmed_without_being_asked(monkeypatch):
    """VL by input as torus-2QoS needs it; 15 discards and is not cut."""
    f = fabric()
    vls = np.zeros((f.sizes.switches, 5, 5, 16), np.uint8)
    vls[:] = np.arange(5)[:, None, None]
    vls[..., 9] = 15

    def routed(*given):
        graph, routing = plain(*given)
        return graph, Routing(routing.engine, routing.lft, sl2vl=vls, ranks=routing.ranks)

    plain = sweep.ucast_mgr.route_subnet
    monkeypatch.setattr(sweep.ucast_mgr, "route_subnet", routed)
    sm, _ = managed(f, "")
    assert any("SLtoVL" in note for note in sm.report.notes)
    for port in np.flatnonzero(f.linked & f.is_switch[f.port_node]).tolist():
        rows = f.sl2vl[f.sl2vl_base[port] : f.sl2vl_base[port] + 5]
        held = np.stack([rows >> 4, rows & 15], axis=2).reshape(5, 16)
        assert (held[:, 0] == np.arange(5)).all() and (held[:, 9] == 15).all()


def test_check_finds_an_sl_in_use_that_is_dropped(tmp_path):
    """The lint of the manager is a finding: SL 2 of a partition maps to VL 15 at switches, and SL 3 to a VL without weight."""
    (tmp_path / "partitions.conf").write_text(
        "Default=0x7fff : ALL=full;\njob=0x12, ipoib, sl=2 : ALL=full;\nio=0x13, ipoib, sl=3 : ALL=full;\n"
    )
    (tmp_path / "fabric.yaml").write_text(
        "topology: {kind: fat-tree, radix: 4, levels: 2}\nsm: {partitions: partitions.conf, qos: true,"
        ' qos_swe_sl2vl: "0,1,15,3,4,5,6,7,0,0,0,0,0,0,0,0", qos_vlarb_high: "0:4", qos_vlarb_low: "0:4,1:4,2:4"}\n'
    )
    found = {f.code: f for f in softib.check(tmp_path / "fabric.yaml")}
    dropped, starved = found["sl-dropped"], found["sl-without-weight"]
    assert (
        "SL 2 of partition job" in dropped.message
        and dropped.evidence["kind"] == "swe"
        and dropped.severity == Severity.ERROR
    )
    assert "SL 3 of partition io" in starved.message and starved.where
    assert dropped.evidence["ports"] == 4 * 4 + 2 * 4, "all external ports of the six switches that have a cable"


def test_an_sl_in_use_that_is_dropped_or_starves_is_said():
    used = tuple(
        parse_partitions("Default=0x7fff, sl=2 : ALL=full;\njob=0x12, sl=9 : ALL=full;\nvoid=0x13, sl=11 : ALL=full;\n")
    )
    text = "qos TRUE\nqos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,15,4,5,6,7\nqos_vlarb_low 0:1,1:0,2:3\nqos_vlarb_high 2:4\n"
    sm, _ = managed(fabric(), text, partitions=used)
    said = [n for n in sm.report.notes if n.startswith("SL ")]
    assert {n.split(":")[0] for n in said} == {"SL 9 of partition job", "SL 11 of partition void"}
    assert len(said) == 6 and any("gives its VL 1 no weight" in n for n in said) and any("drops it" in n for n in said)
    sm, _ = managed(fabric(), "qos TRUE\n", partitions=used)
    assert not [n for n in sm.report.notes if n.startswith("SL ")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qos_sl2vl 1,2,3", "16 VLs"),
        ("qos_ca_vlarb_low 15:3", "VLs 0 to 14"),
        ("qos_vlarb_high 3:256", "weights 0 to 255"),
        ("qos_swe_high_limit 256", "out of range"),
        ("qos_vlarb_low " + ",".join(65 * ["1:1"]), "64 of them"),
    ],
)
def test_what_cannot_be_is_said_with_its_line_and_the_default_holds(text, says):
    found, notes = read_options(f"qos TRUE\n{text}\n", "f")
    assert found.get(text.split()[0]) is None and re.search(f"^f:2: {text.split()[0]} .*{says}", notes[0])


def test_options_without_qos_would_have_no_effect():
    with pytest.raises(InputError, match="qos_ca_sl2vl has no effect without qos TRUE"):
        config_of(read_options(f"qos_ca_sl2vl {TEN}\n").options)
    assert config_of({"qos": False}) == SmConfig() and config_of({"qos": True}).qos == QosConfig()
    assert ManagerSettings(fallback={"qos": True, "qos_sw0_sl2vl": TEN}).read().qos.tables("sw0").sl2vl[5] == 0
    assert {QosConfig().tables(kind).high_limit for kind in KINDS} == {0}
