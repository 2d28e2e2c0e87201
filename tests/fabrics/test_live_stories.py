"""Folders with a ``live.yaml``: what happens to a fabric that runs (``orders`` of ``softib fault`` and their time), and what
must then be true at the ``ends`` named: port state, counters between two bounds, the PMA's own words, traps sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from softib.agents.plane import AgentPlane
from softib.fabric.faults.targets import port_at
from softib.fabric.power_cycle import power_on
from softib.fabric.power_up import active_speed_codes
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.iba.constants import PortState
from softib.iba.perf import PortCounters
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo, SwitchInfo
from softib.live.faults.controller import FaultController
from softib.live.mad_router import MadRouter

HERE = Path(__file__).resolve().parent
STORIES = sorted(p.parent for p in HERE.glob("*/live.yaml"))
S = 10**12


def pma(plane: AgentPlane, port: int, now: int) -> dict[str, int]:
    """PortCounters of ``port`` as its own device's port 0 or port reads them."""
    from tests.agents.smps import ask

    f = plane.fabric
    own = int(f.node_base[f.port_node[port]])
    PortInfo.lid.set(f.port_info, 7, [own])
    data = PortCounters.zeros()
    PortCounters.port_select.set(data, int(f.port_num[port]))
    status, said = ask(plane, own, now, klass=4, attr=PortCounters.attr, dlid=7, data=data)
    assert status == 0
    return PortCounters.unpack(said[: PortCounters.size].tobytes())


LONG = "live-bad-cable"
"""Compares many seconds of errors; the slow run has it. The rest of what it shows is in tests/live/test_faults.py."""


@pytest.mark.parametrize(
    "story", [pytest.param(p, id=p.name, marks=pytest.mark.slow if p.name == LONG else ()) for p in STORIES]
)
def test_live_story(story: Path) -> None:
    told = yaml.safe_load((story / "live.yaml").read_text())
    f = load_fabric_yaml(story / "fabric.yaml").fabric
    power_on(f)
    SwitchInfo.port_state_change.set(f.switch_info, 0)  # a manager has seen them come up
    plane = AgentPlane(f)
    now = 0
    controller = FaultController(MadRouter(plane), lambda: now)
    traps: list[int] = []
    controller.router.traps = lambda now_ps: traps.extend(n.trap for n in plane.take_notices())
    orders = {round(o.pop("at_s") * 10): o for o in told["orders"]}
    for tenth in range(round(told["until_s"] * 10) + 1):
        now = tenth * S // 10
        controller.tick(now)
        if tenth in orders:
            controller.do(orders[tenth])
    ends = [port_at(f, e) for e in told["ends"]]
    controller.settle(now)
    for port in ends:
        assert PortState(int(f.port_state[port])).name == told["state"]
        for name, (least, most) in told["counters"].items():
            assert least <= int(f.counters[name][port]) <= most, (name, f.port_name(port))
        wire = pma(plane, port, now)
        assert {name: wire[name] for name in told["wire"]} == told["wire"]
        if "active" in told:
            lanes = LANES_BY_BIT[int(PortInfo.link_width_active.get(f.port_info[port]))]
            code = int(active_speed_codes(f.port_info, f.port_mlnx_speed)[port])
            assert {"lanes": lanes, "speed": SPEED_BY_CODE[code].name} == told["active"]
    assert traps == told["traps"]
    others = np.delete(f.counters["symbol_error_counter"], ends)
    assert not others.any()


def test_there_are_live_stories() -> None:
    assert len(STORIES) >= 4
