"""Modules and FEC histograms of a fabric that runs: what is planted in the hardware, read by MADs, scraped, and told apart by the rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from softib.diags.cable_rules.judge import judge
from softib.iba.constants import MgmtClass
from softib.iba.vendor import mlnx
from softib.monitor.intervals import between, observations_of
from softib.monitor.perfmgr import Pace
from softib.monitor.registers import HISTOGRAM
from tests.monitor.lab import Lab, port_of, row_of

S = 10**12


def watched(lab, rounds=3):
    readings = []
    for _ in range(rounds):
        lab.wire.now_ps += S
        readings.append(lab.round().reading)
    ports = lab.poller.targets.ports
    return observations_of(ports, [between(a, b) for a, b in itertools.pairwise(readings)])


def accused(lab, **more):
    return {
        (f.code, str(f.where[0])): f for f in judge(watched(lab, **more)) if f.severity.name in ("WARNING", "ERROR")
    }


@pytest.fixture
def lab():
    return Lab(optical=True, pace=Pace())


def test_a_healthy_fabric_accuses_nobody_and_every_module_is_read(lab):
    seen = watched(lab)
    for name, least, most in (
        ("module_temperature_c", 40, 50),
        ("module_voltage_v", 3.29, 3.31),
        ("module_rx_power_dbm", -1.1, -1.0),
        ("module_tx_power_dbm", -0.01, 0.01),
        ("module_rx_power_low_dbm", -8.1, -7.9),
        ("module_temperature_high_c", 75, 75),
        ("fec_corrects", 15, 15),
    ):
        assert ((seen.level[name] >= least) & (seen.level[name] <= most)).all(), name
    assert seen.total("fec_codewords_0").min() > 0 and not sum(seen.total(n).sum() for n in HISTOGRAM[1:])
    assert not accused(lab)


def test_light_lost_on_the_way_is_the_fibre_or_the_receiver(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    peer = int(lab.fabric.port_peer[port])
    lab.wire.plane.faults.attenuate(port, 7.5)
    (found,) = [f for (code, _), f in accused(lab).items() if code == "module-rx-power"]
    assert str(found.where[0]) == lab.fabric.port_name(port)
    assert found.evidence["blame"] == "fibre or receiver" and found.evidence["lost_db"] == pytest.approx(8.56, abs=0.05)
    assert f"{lab.fabric.port_name(peer)} sends 0.0 dBm" in found.message
    assert {a["code"] for a in found.evidence["also"]} >= {"link-pre-fec-errors"}  # what the missing light does


def test_a_bent_cable_lacks_light_in_both_directions(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    for end in (port, int(lab.fabric.port_peer[port])):
        lab.wire.plane.faults.attenuate(end, 7.5)
    found = [f for (code, _), f in accused(lab).items() if code == "module-rx-power"]
    assert [f.evidence["blame"] for f in found] == ["cable"]


def test_a_fading_laser_is_the_module_that_sends(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    peer = int(lab.fabric.port_peer[port])
    lab.wire.plane.faults.fade(peer, 7.2)  # a little below its alarm: MADs still cross
    told = accused(lab)
    assert ("module-tx-power", lab.fabric.port_name(peer)) in told and not any(c == "module-rx-power" for c, _ in told)
    found = told["module-tx-power", lab.fabric.port_name(peer)]
    assert found.evidence["tx_power_dbm"] == pytest.approx(-7.2, abs=0.05) and found.evidence["tx_bias_ma"] > 12
    assert "this module" in found.message


def test_a_hot_module_is_one_and_no_cable_is_accused(lab):
    port = port_of(lab.fabric, "leaf-2", 1)
    lab.wire.plane.faults.optics.heat(port, 78.0)
    told = accused(lab)
    assert set(told) == {("module-temperature", lab.fabric.port_name(port))}
    assert "above its alarm threshold of 75 °C" in told["module-temperature", lab.fabric.port_name(port)].message


def test_a_link_near_the_limit_of_its_code_has_no_margin(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    lab.wire.plane.faults.seed(3)
    lab.wire.plane.faults.noise(port, 1.2e-4)
    (found,) = accused(lab).values()
    assert found.code == "link-pre-fec-errors"
    (margin,) = [a for a in found.evidence["also"] if a["code"] == "fec-margin"]
    assert 9 <= margin["evidence"]["highest_bin"] <= 15 and margin["evidence"]["corrects"] == 15
    # The bins are what the ratio makes of a codeword of 544 symbols.
    bins = np.array(margin["evidence"]["codewords"], float)
    q = 1 - (1 - 1.2e-4) ** 10
    for k in range(6):
        assert bins[k] / bins.sum() == pytest.approx(math.comb(544, k) * q**k * (1 - q) ** (544 - k), rel=0.02)


def test_registers_are_asked_of_devices_that_say_that_they_have_them():
    lab = Lab(optical=True)
    lab.fabric.vendor_id[:] = 0x1234
    lab.poller.discover()
    lab.wire.asked.clear()
    one = lab.round()
    assert not any(klass == int(MgmtClass.VENDOR_MLNX) for klass, _, _ in lab.wire.asked)
    assert "module_rx_power_dbm" not in one.reading.level and HISTOGRAM[0] not in one.reading.have


def test_copper_is_asked_for_a_module_once():
    lab = Lab()
    lab.wire.asked.clear()
    lab.round()
    asked = [
        lid
        for klass, attr, lid in lab.wire.asked
        if (klass, attr) == (int(MgmtClass.VENDOR_MLNX), mlnx.ACCESS_REGISTER)
    ]
    assert len(asked) == len(lab.poller.targets)  # histograms alone
    assert lab.round().targets is lab.poller.targets


def test_what_a_silent_device_measured_is_not_repeated(lab):
    lab.round()
    port = port_of(lab.fabric, "host-0003", 1)
    row = row_of(lab.poller.targets, lab.fabric, port)
    lab.wire.mute = {int(lab.poller.targets.dlid[row])}
    for _ in range(2):
        one = lab.round()
    assert np.isnan(one.reading.level["module_rx_power_dbm"][row]) and not one.reading.have[HISTOGRAM[0]][row]


def test_a_histogram_and_modules_are_scraped(lab):
    pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    from tests.monitor.exporter.scraping import labels, scraped

    port = port_of(lab.fabric, "leaf-1", 3)
    lab.wire.plane.faults.noise(port, 1e-5)
    lab.wire.now_ps += S
    lab.round()
    lab.wire.now_ps += S
    one, families, samples = scraped(lab)
    family = families["softib_port_fec_codeword_symbols"]
    assert family.type == "histogram"
    row, own = row_of(one.targets, lab.fabric, port), labels(lab, port)
    bins = np.array([one.reading.value[n][row] for n in HISTOGRAM])
    for k in range(16):
        key = ("softib_port_fec_codeword_symbols_bucket", tuple(sorted([*own, ("le", str(k))])))
        assert samples[key] == bins[: k + 1].sum()
    assert (
        samples["softib_port_fec_codeword_symbols_sum", own]
        == (bins * np.arange(16)).sum()
        == lab.fabric.lane_counters["port_fec_corrected_symbol_ctr"][port]
    )
    assert samples["softib_port_fec_codeword_symbols_count", own] == bins.sum()
    assert samples["softib_module_receive_power_dbm", own] == pytest.approx(-1.06, abs=0.01)
    assert samples["softib_module_transmit_bias_amperes", own] == pytest.approx(0.0065)
    assert samples["softib_port_fec_limit_symbols", own] == 15
