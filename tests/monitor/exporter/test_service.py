"""The exporter's service over a wire in this process: what is old is absent, what is new is there, a fabric that changes shape, and a manager that stalls."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba.smp import PortInfo, SMInfo
from softib.monitor.manager import STALLED_S, ManagerWatch
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace
from tests.monitor.lab import Wire, fabric_up, port_of

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")


@pytest.fixture
def made():
    from softib.monitor.exporter.service import ExporterService

    fabric = fabric_up()
    wire = Wire(fabric)
    service = ExporterService(
        Opened(wire, "lab", None, lambda: None), port=0, every_s=0.5, pace=Pace(timeout_ps=5 * 10**9)
    )
    yield service, fabric, wire
    service.close()


def text_of(service) -> str:
    return b"".join(service.metrics()).decode()


def test_what_is_old_is_absent(made):
    service, _, _ = made
    assert "infiniband_switch_port" not in text_of(service) and "softib_up 0.0" in text_of(service)
    service.step()
    assert "infiniband_switch_port_link_downed_total{" in text_of(service) and "softib_up 1.0" in text_of(service)
    service._last_s -= 60
    assert "infiniband_switch_port" not in text_of(service) and "softib_port" not in text_of(service)
    assert "softib_up 0.0" in text_of(service) and "softib_sm_" not in text_of(service)


def test_rounds_that_take_long_are_no_blindness(made):
    """A busy machine: a round of half a minute every half second is read on and on."""
    service, _, _ = made
    service.step()
    service._last_s -= 60
    assert "softib_up 0.0" in text_of(service)
    service.watch.round.duration_s = 30.0
    assert "softib_up 1.0" in text_of(service)


def test_a_cable_that_is_gone_leaves_no_counter_behind(made):
    service, fabric, wire = made
    service.step()
    service.step()
    host = port_of(fabric, "host-0007", 1)
    guid = f"{int(fabric.port_guid[host]):#018x}"
    assert f'guid="{guid}"' in text_of(service)
    wire.plane.set_link(host, False, 0)
    service.watch.poller.discover()
    service.step()
    left = {line.split("{")[0] for line in text_of(service).splitlines() if f'{{guid="{guid}"' in line}
    assert left == {"softib_port_state", "softib_port_info", "softib_device_up"}
    assert 'softib_ports{read="yes"} 31.0' in text_of(service)  # the leaf's port is read on
    service.step()
    assert "softib_port_observed_seconds{" in text_of(service)


def test_error_ratios_of_other_cables_outlive_a_change_of_the_fabric(made):
    """A host somewhere starts again all the time in a large fabric: the time that ratios are from must not begin anew for everybody."""
    service, fabric, wire = made
    service.step()
    service.step()
    row = next(i for i, n in enumerate(service.watch.poller.targets.ports.node) if n.startswith("spine"))
    key = service.watch.poller.targets.ports.node_guid[row], service.watch.poller.targets.ports.portnum[row]
    before = float(service._ratios.of("symbol")[2][row])
    wire.plane.set_link(port_of(fabric, "host-0007", 1), False, 0)
    service.watch.poller.discover()
    service.step()
    ports = service.watch.poller.targets.ports
    row = next(i for i in range(len(ports)) if (ports.node_guid[i], ports.portnum[i]) == key)
    last = service.watch.interval
    span = float(last.end_ns[row] - last.begin_ns[row]) / 1e9
    assert before > 0 and float(service._ratios.of("symbol")[2][row]) == pytest.approx(before + span)


def test_a_subnet_without_lids_is_one_line(made):
    service, fabric, wire = made
    PortInfo.lid.set(fabric.port_info, 0)
    wire.plane.fabric = fabric
    service.watch.poller.discover()
    with pytest.raises(InputError, match="check that a subnet manager is running") as error:
        service.step()
    assert "\n" not in str(error.value)


def test_a_manager_whose_count_stands_still_is_stalled_and_one_that_works_is_not():
    watch = ManagerWatch(SimpleNamespace(status=None), SimpleNamespace())
    info = SMInfo.pack(guid=7, act_count=100, priority=14, sm_state=3)
    now = time.monotonic()
    watch._take(7, 1, info, now)
    assert watch.managers[7].state == "MASTER" and watch.managers[7].priority == 14 and not watch.managers[7].stalled
    watch._take(7, 1, info, now + STALLED_S + 1)
    assert watch.managers[7].stalled
    watch._take(7, 1, SMInfo.pack(guid=7, act_count=101, priority=14, sm_state=3), now + STALLED_S + 2)
    assert not watch.managers[7].stalled
    standby = SMInfo.pack(guid=8, act_count=1, priority=1, sm_state=2)
    watch._take(8, 2, standby, now)
    watch._take(8, 2, standby, now + 1000)
    assert watch.managers[8].state == "STANDBY" and not watch.managers[8].stalled  # it only polls its master


def test_no_line_of_a_port_is_there_twice(made):
    service, _, _ = made
    service.step()
    service.step()
    lines = [line.rsplit(" ", 1)[0] for line in text_of(service).splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines)) and np.size(lines) > 1000


def test_a_history_that_cannot_be_written_is_one_line_and_metrics_are_served_on(made, tmp_path):
    """A disk that is full, and is not any more: what was said once is not said again each round."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    from softib.monitor.history import History

    service, _, _ = made
    lines: list[str] = []
    service.notice = lines.append
    history = History(tmp_path / "past")
    service.sinks.append(service.history_sink(history))
    (tmp_path / "past").write_text("in the way")
    for _ in range(4):
        service.step()
    assert len(lines) == 1 and "cannot be written" in lines[0] and "\n" not in lines[0]
    assert "infiniband_switch_port_link_downed_total{" in text_of(service) and service.failure is None
    (tmp_path / "past").unlink()
    service.step()
    assert len(history.times()) == 1 and len(lines) == 1


def test_collectors_that_are_left_out_cost_neither_requests_nor_series():
    from softib.monitor.exporter.service import ExporterService
    from softib.monitor.perfmgr import COLLECTORS

    wire = Wire(fabric_up())
    opened, pace = Opened(wire, "lab", None, lambda: None), Pace(timeout_ps=5 * 10**9)
    service = ExporterService(opened, port=0, every_s=0.5, pace=pace)
    service.watch.poller.left_out = frozenset(COLLECTORS)
    wire.asked.clear()
    service.step()
    service.step()
    attributes = {attribute for cls, attribute, _ in wire.asked if cls == 0x04}
    # PortCountersExtended and PortCounters (IBA 16.1.3, 16.1.4.11), nothing of the optional rest; no SMInfo (0x20), no vendor class.
    assert (
        attributes and attributes <= {0x12, 0x1D} and not any(a == 0x20 for c, a, _ in wire.asked if c in (0x01, 0x81))
    )
    assert not any(c == 0x0A for c, _, _ in wire.asked)
    text = text_of(service)
    assert "infiniband_switch_port_transmit_data_bytes_total{" in text
    without = ("softib_finding{", "softib_findings_judged", "softib_sm_state{", "softib_port_fec", "malformed")
    assert not any(name in text for name in without)
    service.close()
