"""Modules and the FEC histogram, asked as mstflint does (AccessRegisterGMP), and the laws behind them."""

import math

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.columns import CableMedium
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass
from softib.iba.smp import MadHeader, PortInfo
from softib.iba.vendor import mlnx as r
from softib.mad.batch import MadBatch
from tests.agents.lab import S, cable, powered


def optical(generation="NDR", length_m=30.0):
    f = generate("fat-tree", radix=4, levels=2, generation=generation)
    f.cable_medium[:], f.cable_length_m[:] = CableMedium.MULTIMODE, length_m
    f.vendor_id[:] = 0x2C9
    power_on(f)
    plane = AgentPlane(f)
    return f, plane


def register(f, plane, port, number, now=0, group=0, page=0, unit=0, pnat=1, block=0):
    """(status, the register's octets) of one AccessRegisterGMP to the node of ``port``, sent from itself."""
    batch = MadBatch.zeros(1)
    node = int(f.port_node[port])
    batch.mad[0, : MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.VENDOR_MLNX),
        class_version=1,
        method=int(Method.GET),
        attr_id=r.ACCESS_REGISTER,
        attr_mod=number,
        tid=1,
    )
    batch.mad[0, r.REGISTER_AT - 3 : r.REGISTER_AT - 2] = block
    head = r.PortRegister.pack(
        local_port=int(f.port_num[port]), pnat=pnat, group=group, page_select=page, module_info_ext=unit
    )
    batch.mad[0, r.REGISTER_AT : r.REGISTER_AT + 8] = head
    end = int(f.node_base[node]) + (0 if f.is_switch[node] else 1)
    lid = 7
    PortInfo.lid.set(f.port_info, lid, [end])
    batch.dlid[:], batch.dqp[:], batch.sqp[:] = lid, 1, 1
    got = plane.send(batch, end, now).mad[0]
    return int(got[4]) << 8 | int(got[5]), got[r.REGISTER_AT :]


def module(f, plane, port):
    status, octets = register(f, plane, port, r.PDDR, page=r.MODULE_PAGE, unit=1)
    assert status == 0
    image = octets[8 : 8 + r.ModuleInfo.size].copy()
    return {f.name: np.asarray(f.get(image), np.int64) for f in r.ModuleInfo.named()}


def test_a_healthy_module_sends_what_the_other_receives_less_the_fibre():
    f, plane = optical(length_m=100.0)
    a, b = cable(f)
    for port in (a, b):
        told = module(f, plane, port)
        assert set(told["tx_power"].tolist()) == {1000}  # 0 dBm
        lost_db = -10 * math.log10(told["rx_power"][0] / 1000)
        assert lost_db == pytest.approx(1.0 + 0.3, abs=0.01)  # connectors, 100 m at 3 dB/km
        assert 40 <= told["temperature"] / 256 <= 50 and told["voltage"] == 33000 and told["monitor_cap_mask"] == 31
        assert told["rx_power_low_th"] < told["rx_power"][0] < told["rx_power_high_th"]


def test_light_that_is_lost_and_a_laser_that_fades_show_at_different_ends():
    f, plane = optical()
    a, b = cable(f)
    before = module(f, plane, a), module(f, plane, b)
    plane.faults.attenuate(a, 3.0103)
    after = module(f, plane, a), module(f, plane, b)
    assert after[0]["rx_power"][0] == pytest.approx(before[0]["rx_power"][0] / 2, rel=0.01)
    assert (after[1]["rx_power"] == before[1]["rx_power"]).all() and (
        after[1]["tx_power"] == before[1]["tx_power"]
    ).all()
    plane.faults.attenuate(a, 0.0)
    plane.faults.fade(b, 10.0)
    after = module(f, plane, a), module(f, plane, b)
    assert after[1]["tx_power"][0] == 100 and after[1]["tx_bias"][0] > before[1]["tx_bias"][0]
    assert after[0]["rx_power"][0] == pytest.approx(before[0]["rx_power"][0] / 10, abs=1)
    assert (after[1]["rx_power"] == before[1]["rx_power"]).all()
    plane.faults.fade(b, 0.0)
    assert all((module(f, plane, p)["rx_power"] == x["rx_power"]).all() for p, x in zip((a, b), before, strict=True))


def test_too_little_light_makes_errors_in_its_direction_alone():
    f, plane = optical()
    a, b = cable(f)
    lost = 8.0 - 1.09  # to the low alarm, where a PAM4 link makes 2.4e-4
    plane.faults.attenuate(a, lost)
    assert plane.tables.fault_rate[a, 0] == pytest.approx(2.4e-4, rel=0.06)  # a microwatt more or less
    plane.faults.settle([a, b], S)
    symbols = f.lane_counters["port_fec_corrected_symbol_ctr"]
    bits = 4 * 106.25e9
    assert symbols[a] == pytest.approx(plane.tables.fault_rate[a, 0] * bits, rel=0.01) and symbols[b] == 0
    plane.faults.attenuate(a, 1.0)  # 6 dB of margin are left
    assert plane.tables.fault_rate[a, 0] == 0.0


def test_a_module_is_as_warm_as_is_said_and_cools_again():
    f, plane = optical()
    a, _ = cable(f)
    before = module(f, plane, a)["temperature"]
    plane.faults.optics.heat(a, 81.5)
    assert module(f, plane, a)["temperature"] == 81.5 * 256
    plane.faults.optics.heat(a, None)
    assert module(f, plane, a)["temperature"] == before


def test_copper_has_no_module():
    f, plane = powered("NDR")
    a, _ = cable(f)
    assert not f.module_info.any()
    with pytest.raises(InputError, match="has no optical module"):
        plane.faults.attenuate(a, 3.0)


@pytest.mark.parametrize(
    ("generation", "kind", "bins"), [("NDR", r.KP4, 16), ("HDR", r.KP4, 16), ("EDR", r.KR4, 8), ("QDR", 0, 0)]
)
def test_histogram_ranges_are_of_the_code_that_is_active(generation, kind, bins):
    f, plane = optical(generation)
    if generation == "EDR":
        f.port_info_ext[:, 4:8] = 2
    a, _ = cable(f)
    status, octets = register(f, plane, a, r.PPHCR)
    told = r.HistogramRanges.unpack(bytes(octets[: r.HistogramRanges.size]))
    if generation == "EDR" and told["active_hist_type"] == 0:
        pytest.skip("no RS-FEC on this EDR link")
    assert status == 0 and told["active_hist_type"] == kind and told["num_of_bins"] == bins
    assert [int(v) for v in told["bin_range"][:bins]] == [k << 16 | k for k in range(bins)]


def histogram(f, plane, port, now):
    status, octets = register(f, plane, port, r.PPCNT, now, group=r.HISTOGRAM_GROUP)
    assert status == 0
    return np.asarray(r.FecHistogram.hist.get(octets[8 : 8 + r.FecHistogram.size].copy()), np.int64)[: r.BINS]


def test_a_histogram_is_binomial_and_agrees_with_the_counters_of_the_specification():
    f, plane = optical("NDR")
    a, _ = cable(f)
    plane.faults.seed(5)
    histogram(f, plane, a, 1)  # from here on bin 0 is counted
    ber = 1e-5
    plane.faults.noise(a, ber, 1)
    bins = histogram(f, plane, a, S)
    codewords = 4 * 106.25e9 / 5440
    q = 1 - (1 - ber) ** 10
    for k in range(5):
        mean = codewords * math.comb(544, k) * q**k * (1 - q) ** (544 - k)
        assert abs(bins[k] - mean) < 6 * math.sqrt(mean) + 2, (k, bins[k], mean)
    counters = f.lane_counters[a]
    assert bins[1:].sum() == counters["port_fec_correctable_block_ctr"]
    assert (bins * np.arange(16)).sum() == counters["port_fec_corrected_symbol_ctr"]
    assert (histogram(f, plane, a, 2 * S) >= bins).all()


def test_a_good_link_fills_bin_0_alone():
    f, plane = optical("NDR")
    a, _ = cable(f)
    histogram(f, plane, a, 1)
    bins = histogram(f, plane, a, 10 * S)
    assert bins[0] == pytest.approx(10 * 4 * 106.25e9 / 5440, rel=1e-6) and not bins[1:].any()


@pytest.mark.parametrize(
    ("number", "more", "status"),
    [
        (0x9999, {}, r.UNKNOWN_REGISTER),
        (r.PPCNT, {"group": 0x12}, r.BAD_PARAMETER),
        (r.PDDR, {"page": 1, "unit": 1}, r.BAD_PARAMETER),
        (r.PDDR, {"page": 3, "unit": 0}, r.BAD_PARAMETER),
        (r.PDDR, {"page": 3, "unit": 1, "pnat": 0}, r.BAD_PARAMETER),
        (r.PPHCR, {"block": 1}, r.BAD_PARAMETER),
    ],
)
def test_what_a_device_has_not_is_said_in_the_status(number, more, status):
    f, plane = optical()
    a, _ = cable(f)
    assert register(f, plane, a, number, **more)[0] == status
