"""``softib fault`` on a running fabric, as people type it and as stock tools see it; and the controller's clock."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.columns import CableMedium
from softib.fabric.faults.targets import port_at
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.rates import WIDTH_BITS
from softib.iba.smp import PortInfo
from softib.live.faults.controller import TRAINING_PS, FaultController
from softib.live.faults.options import KINDS, RATES, options_of
from softib.live.mad_router import MadRouter
from softib.live.shared_fabric import SharedFabric
from tests.live.serving import wait_for

S = 10**12
LINK = "leaf-1[3]"


class Lab:
    """A controller whose clock the test sets."""

    def __init__(self):
        self.f = generate("fat-tree", radix=4, levels=2, generation="EDR")
        power_on(self.f)
        self.now = 0
        self.router = MadRouter(AgentPlane(self.f))
        self.controller = FaultController(self.router, lambda: self.now)
        self.a = port_at(self.f, LINK)
        self.b = int(self.f.port_peer[self.a])

    def __call__(self, kind, where=LINK, **options):
        return self.controller.do({"op": "fault", "kind": kind, "where": where, **options})

    def at(self, seconds):
        self.now = int(seconds * S)
        self.controller.tick(self.now)

    @property
    def up(self):
        up = [int(self.f.port_state[p]) > PortState.DOWN for p in (self.a, self.b)]
        assert up[0] == up[1]
        return up[0]

    def known(self):
        return [(k["kind"], k["where"]) for k in self.controller.do({"kind": "list"})["faults"]]


@pytest.fixture
def lab():
    return Lab()


def test_a_flap_keeps_its_times(lab):
    lab("flap", period_s=2.0, down_s=0.5, count=3)
    seen = []
    for i in range(90):
        lab.at(i / 10)
        seen.append(lab.up)
    down = [i for i, up in enumerate(seen) if not up]
    assert down == [*range(5), *range(20, 25), *range(40, 45)]
    assert [int(lab.f.counters["link_downed_counter"][p]) for p in (lab.a, lab.b)] == [3, 3]
    assert lab.known() == [] and lab.controller.wait_s(lab.now) == float("inf")


def test_a_flap_ends_by_duration_by_link_up_and_by_clear(lab):
    lab("flap", period_s=1.0, duration_s=2.5)
    for i in range(60):
        lab.at(i / 10)
    assert lab.f.counters["link_downed_counter"][lab.a] == 3 and lab.up
    for end in ("link-up", "clear"):
        lab("flap", period_s=1.0)
        assert not lab.up
        lab(end, where=lab.f.port_name(lab.b))  # the other end is the same link
        assert lab.up and lab.known() == []
        count = int(lab.f.counters["link_downed_counter"][lab.a])
        lab.at(lab.now / S + 20)
        assert lab.f.counters["link_downed_counter"][lab.a] == count


def test_a_link_that_trains_is_down_for_a_moment(lab):
    epoch = lab.router.epoch
    lab("downgrade", width=1, speed="qdr")
    assert not lab.up and lab.router.epoch > epoch
    assert lab.controller.wait_s(lab.now) == TRAINING_PS / S
    lab.at(1.2)
    assert lab.up
    for p in (lab.a, lab.b):
        assert PortInfo.link_width_active.get(lab.f.port_info[p]) == WIDTH_BITS[1]
    lab("downgrade", width=1, speed="SDR")
    lab.at(2.4)
    assert PortInfo.link_speed_active.get(lab.f.port_info[lab.a]) == 1
    lab("clear")
    lab.at(3.6)
    assert lab.up and PortInfo.link_width_active.get(lab.f.port_info[lab.b]) == WIDTH_BITS[4]
    assert PortInfo.link_speed_ext_active.get(lab.f.port_info[lab.b]) == 2


def test_a_link_that_is_cut_while_it_trains_stays_down(lab):
    lab("downgrade", width=1)
    lab("link-down")
    lab.at(5)
    assert not lab.up
    lab("link-up")
    assert lab.up and PortInfo.link_width_active.get(lab.f.port_info[lab.a]) == WIDTH_BITS[1]


def test_every_change_of_a_fault_moves_the_epoch_and_the_loss_of_its_ports(lab):
    lab.f.port_info_ext[...] = 0
    before = lab.router.epoch
    lab("ber", ber=1e-6)
    assert lab.router.epoch == before + 1
    line_bits = 8 * 66 / 64
    assert lab.f.port_loss[[lab.a, lab.b]].tolist() == [[0.0, 1e-6 * line_bits]] * 2
    assert not np.delete(lab.f.port_loss, [lab.a, lab.b], axis=0).any()
    lab("downgrade", speed="QDR")
    lab.at(1.5)  # 8b/10b carries 10 bits an octet
    assert lab.f.port_loss[lab.a].tolist() == [0.0, 1e-6 * 10]
    lab("ber", ber=0.0)
    assert not lab.f.port_loss.any() and [k for k, _ in lab.known()] == ["downgrade"]


def test_light_that_is_missing_comes_back_when_it_is_cleared():
    """Faults of modules are of one end; bit errors for want of light and those of the cable add up, and each goes alone."""
    f = generate("fat-tree", radix=4, levels=2, generation="NDR")
    f.cable_medium[:] = CableMedium.MULTIMODE
    power_on(f)
    controller = FaultController(MadRouter(AgentPlane(f)), lambda: 5 * S)
    a = int(f.cable_port[3, 0])
    b, name = int(f.port_peer[a]), f.port_name(a)
    modules = f.module_info.copy()
    rate = controller.faults.tables.fault_rate[:, 0]
    controller.do({"kind": "attenuation", "where": name, "db": 6.9})
    assert 1e-4 < rate[a] < 3e-4 and rate[b] == 0 and not (f.module_info[a] == modules[a]).all()
    controller.do({"kind": "ber", "where": name, "ber": 1e-6})
    assert rate[b] == 1e-6 and rate[a] > 1e-4
    controller.do({"kind": "weak-laser", "where": name, "db": 3.0})
    controller.do({"kind": "hot-module", "where": name, "celsius": 80})
    controller.do({"kind": "hot-module", "where": name, "celsius": 81})
    assert {k["kind"] for k in controller.do({"kind": "list"})["faults"]} == {
        "attenuation",
        "ber",
        "weak-laser",
        "hot-module",
    }
    controller.do({"kind": "attenuation", "where": name, "db": 0})
    assert rate[a] == 1e-6 and rate[b] == pytest.approx(1e-6)  # the laser is 3 dB weaker still
    controller.do({"kind": "clear", "where": name})
    assert (f.module_info == modules).all() and not rate.any() and not f.port_loss.any()
    with pytest.raises(InputError, match="optical loss in dB, from 0 to 40"):
        controller.do({"kind": "weak-laser", "where": name, "db": 41})


def test_faults_of_the_file_are_there_from_the_start():
    f = generate("fat-tree", radix=4, levels=2, generation="EDR")
    f.cable_ber[3] = 1e-7
    power_on(f)
    f.port_info_ext[...] = 0
    controller = FaultController(MadRouter(AgentPlane(f)), lambda: 5000 * S)
    controller.settle(5001 * S)  # one second of 103.125 Gb/s, not the 5000 before
    assert 10312 - 600 < int(f.counters["symbol_error_counter"][f.cable_port[3, 0]]) < 10312 + 600
    (one,) = controller.do({"kind": "list"})["faults"]
    assert one["kind"] == "ber" and one["ber"] == 1e-7
    controller.do({"kind": "clear"})
    assert f.cable_ber[3] == 0 and controller.do({"kind": "list"})["faults"] == []


def test_a_dead_switch_and_clear_by_node(lab):
    lab("switch-down", where="spine-1")
    assert not lab.up
    lab("link-up")
    assert not lab.up  # a signal needs power
    with pytest.raises(InputError, match="already has no power"):
        lab("switch-down", where="spine-1")
    lab("ber", where="leaf-1[4]", ber=1e-9)
    lab("clear", where="spine-1")
    assert lab.up and lab.known() == [("ber", "leaf-1[4]")]
    with pytest.raises(InputError, match="has power"):
        lab("switch-up", where="spine-1")
    lab("clear", where="leaf-1")
    assert lab.known() == []


def test_a_system_image_guid_changes_and_comes_back(lab):
    """Trap 145 of the node's end ports; all it is told of a second change is the newest."""
    node = lab.f.node_names().index("spine-1")
    built, epoch = int(lab.f.sys_guid[node]), lab.router.epoch
    for guid in ("0x2c90300a1b2c3", "0002C90300A1B2C4"):
        told = lab("sys-guid", where="spine-1", guid=guid)
        assert told["sys_guid"] == f"{int(guid, 16):#018x}" and int(lab.f.sys_guid[node]) == int(guid, 16)
    assert lab.router.epoch == epoch + 2 and lab.known() == [("sys-guid", "spine-1")]
    assert not np.delete(lab.f.sys_guid == int(guid, 16), node).any()
    lab("clear", where="spine-1")
    assert int(lab.f.sys_guid[node]) == built and lab.known() == []


def test_several_places_and_patterns_are_changed_at_once(lab):
    """What a pattern fits is counted by the construction of the tree: four leaves of two hosts (ports 1, 2) and two cables up (3, 4)."""
    f = lab.f

    def down() -> set[str]:
        rows = np.flatnonzero(
            f.is_switch[f.port_node] & (f.port_num > 0) & (f.port_peer >= 0) & (f.port_state == PortState.DOWN)
        )
        return {f.port_name(int(p)) for p in rows}

    epoch = lab.router.epoch
    reply = lab("link-down", ["leaf-1[1]", "leaf-2[1]", "leaf-1[1]"])
    assert [p["ports"][0] for p in reply["locations"]] == ["leaf-1[1]", "leaf-2[1]"] and down() == {
        "leaf-1[1]",
        "leaf-2[1]",
    }
    assert lab.router.epoch == epoch + 1, "one change"
    assert len(lab("link-down", "leaf-*[3-4]")["locations"]) == 8
    assert len(down()) == 2 + 2 * 8, "both ends of eight cables"
    lab("link-up", ["leaf-?[3-4]", "leaf-1[1]"])
    assert down() == {"leaf-2[1]"}
    assert len(lab("clear", "leaf-*")["cleared"]) == 1 and not down()
    assert {p["node"] for p in lab("switch-down", "spine-*")["locations"]} == {"spine-1", "spine-2"}
    lab("clear", None)
    before = f.port_info.copy()
    for wrong, what in (
        ("leaf-9*[1]", "no node or port matches"),
        (["leaf-1[1]", "nowhere[1]"], "nowhere"),
        ("leaf-*[40-50]", "no node or port matches"),
        ([], "needs a place"),
    ):
        with pytest.raises(InputError, match=what):
            lab("link-down", wrong)
    assert (f.port_info == before).all(), "all places are looked up before anything is changed"


@pytest.mark.parametrize("place", ("leaf-1[3]", "leaf-1:3", "leaf-1/3"))
def test_each_notation_of_a_port_clears_its_fault(lab, place):
    lab("link-down", place)
    assert len(lab("clear", place)["cleared"]) == 1 and not lab("list")["faults"]


BAD = [
    ("sys-guid", {"where": "spine-1"}, "needs --guid"), ("sys-guid", {"where": "spine-1", "guid": "0"}, "not 0"),
    ("sys-guid", {"where": "spine-1", "guid": "0x1_0"}, "in hex"), ("sys-guid", {"where": "spine-1", "guid": 5}, "in hex"),
    ("sys-guid", {"where": "spine-1", "guid": "1" * 17}, "64 bits"), ("sys-guid", {"guid": "0x1"}, "leaf-1"),
    ("flap", {"period_s": 0}, "period_s"), ("flap", {"period_s": "1"}, "period_s"), ("flap", {"count": 0}, "count"),
    ("flap", {"count": True}, "count"), ("flap", {"down_s": 2.0}, "not less"), ("flap", {"ber": 1}, "does not take RATE (ber); it takes --period (period_s)"),
    ("ber", {}, "needs RATE (ber)"), ("ber", {"ber": 1.0}, "less than 1"), ("ber", {"ber": float("nan")}, "less than 1"),
    ("ber", {"ber": [1]}, "less than 1"), ("slow-port", {}, "needs RATE (gbps)"), ("slow-port", {"gbps": -1}, "gbps"),
    ("slow-port", {"gbps": float("inf")}, "gbps"), ("downgrade", {}, "--width"), ("downgrade", {"width": 3}, "support"),
    ("link-down", {"width": 2}, "does not take --width; it takes no options"),
    ("downgrade", {"speed": "EDRR"}, "EDR"), ("downgrade", {"speed": "NDR"}, "support at most EDR"), ("switch-up", {}, "leaf-1"),
    ("switch-down", {"where": "host-0001"}, "not a switch"), ("switch-down", {"where": 5}, "needs a place"),
    ("link-down", {"where": None}, "needs a place"), ("nova", {}, "nova"), (None, {}, "None"), (["x"], {}, "x"),
]  # fmt: skip # a packed list of short values


@pytest.mark.parametrize(("kind", "options", "what"), BAD)
def test_bad_orders_are_one_line_and_change_nothing(lab, kind, options, what):
    before, counters = lab.f.port_info.copy(), lab.f.counters.copy()
    with pytest.raises(InputError) as told:
        lab(kind, **{"where": LINK, **options})
    assert what in str(told.value) and "\n" not in str(told.value)
    assert lab.known() == [] and lab.controller.wait_s(0) == float("inf")
    assert (lab.f.port_info == before).all() and (lab.f.counters == counters).all() and not lab.f.port_loss.any()


def test_the_command_line_knows_the_same_kinds():
    from softib.cli.run import fault

    assert set(fault._KINDS) == set(KINDS)
    flags = {p.name for p in fault.command.params}
    assert {o for k in KINDS.values() for o in k.options} - set(RATES) <= flags and set(fault._RATES.values()) == set(
        RATES
    )
    assert options_of("flap", {}) == {"period_s": 2.0}


def test_the_command_line_end_to_end(softib):
    up = softib.start("one.yaml")
    shared = SharedFabric.open(Path(softib.status()[0]["shared_fabric"]))
    f = shared.fabric
    a = port_at(f, LINK)
    b = int(f.port_peer[a])
    f_ber = f.cable_ber[int(f.port_cable[a]) :][:1]
    epoch = shared.epoch
    softib("fault", "ber", LINK, "1e-5")
    assert wait_for(lambda: shared.epoch > epoch) and f_ber[0] == 1e-5
    # HDR has RS-FEC: at 1e-5 every block is corrected, and counters of the shared fabric move although nobody asks
    assert wait_for(lambda: all(f.lane_counters["port_fec_correctable_block_ctr"][[a, b]] > 0))
    told = json.loads(softib("fault", "list", "--json"))
    assert [(x["kind"], x["where"], x["ber"]) for x in told["faults"]] == [("ber", LINK, 1e-5)]
    softib("fault", "downgrade", LINK, "--width", "1")
    assert wait_for(lambda: int(f.port_state[a]) == PortState.ACTIVE == int(f.port_state[b]))
    assert PortInfo.link_width_active.get(f.port_info[b]) == WIDTH_BITS[1]
    softib("fault", "switch-down", "spine-1")
    assert wait_for(lambda: softib.status()[0]["port_states"]["down"] == 8)
    softib("fault", "switch-up", "spine-1")
    assert wait_for(lambda: softib.status()[0]["port_states"]["down"] == 0)
    softib("fault", "flap", LINK, "--period", "0.2", "--count", "2")
    assert "cleared" in softib("fault", "clear") and "no faults" in softib("fault", "list")
    assert wait_for(lambda: softib.status()[0]["port_states"]["active"] == 2 * softib.status()[0]["links"])
    guid = "0x0002c90300a1b2c3"
    assert guid in softib("fault", "sys-guid", "leaf-2", "--guid", guid) and guid in softib("fault", "list")
    assert int(f.sys_guid[f.node_names().index("leaf-2")]) == int(guid, 16)
    assert "sys-guid" in softib("fault", "clear", "leaf-2")
    for words in (
        ("sys-guid", "leaf-2"),
        ("sys-guid", "leaf-2", guid),
        ("ber", LINK),
        ("ber", LINK, "2"),
        ("link-down", LINK, "1"),
        ("list", LINK),
        ("downgrade", LINK),
        ("downgrade", LINK, "--speed", "foo"),
        ("flap", LINK, "--period", "0"),
        ("switch-down", LINK),
    ):
        softib("fault", *words, code=2)
    assert softib.status()[0]["bugs"] == 0
    softib("down")
    assert up.wait(120) == 0
