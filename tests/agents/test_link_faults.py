"""Faults of links and switches against laws: expected numbers of events, both ends alike, and what power-up leaves."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from softib.agents.kernels.faults.ber import PACKET_OCTETS
from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.power_up import advertise_fec
from softib.iba.constants import PhysState, PortState
from softib.iba.perf import PortCounters
from softib.iba.perf_optional import PortCountersExtended
from softib.iba.rates import SPEED_BY_NAME, WIDTH_BITS
from softib.iba.smp import PortInfo, PortInfoExtended, SwitchInfo
from tests.agents.lab import S, cable, powered, program

from .smps import SET, ask, line, requests


def states(f, *ports):
    return [(int(f.port_state[p]), int(PortInfo.port_phys_state.get(f.port_info[p]))) for p in ports]


UP, DOWN = (PortState.INIT, PhysState.LINK_UP), (PortState.DOWN, PhysState.POLLING)


@pytest.mark.parametrize("generation", ["SDR", "QDR", "FDR", "EDR"])
@pytest.mark.parametrize("ber", [1e-9, 1e-7])
def test_symbol_errors_grow_with_line_rate_and_time(generation, ber):
    """4 lanes x the signalling rate x BER x time, at both ends, within six standard deviations."""
    f, plane = powered(generation)
    f.port_info_ext[...] = 0  # no RS-FEC
    a, b = cable(f)
    plane.faults.seed(7)
    plane.faults.noise(a, ber, 0)
    plane.faults.settle([a, b], 100 * S)
    mean = 4 * SPEED_BY_NAME[generation].lane_gbps * 1e9 * ber * 100
    for port in (a, b):
        seen = int(f.counters["symbol_error_counter"][port])
        assert abs(seen - mean) < 6 * math.sqrt(mean) + 1, (seen, mean)
    others = np.delete(f.counters["symbol_error_counter"], [a, b])
    assert not others.any()
    plane.faults.noise(a, 0.0, 100 * S)
    before = f.counters["symbol_error_counter"][[a, b]].copy()
    plane.faults.settle([a, b], 200 * S)
    assert (f.counters["symbol_error_counter"][[a, b]] == before).all()


def test_time_in_many_steps_or_one_is_the_same_in_the_mean_and_a_seed_repeats():
    def run(steps, seed):
        f, plane = powered()
        a, b = cable(f)
        plane.faults.seed(seed)
        plane.faults.noise(a, 1e-8, 0)
        for i in range(1, steps + 1):
            plane.faults.settle([a, b], i * 100 * S // steps)
        return int(f.counters["symbol_error_counter"][a])

    mean = 40e9 * 1e-8 * 100
    for steps in (1, 1000):
        assert abs(run(steps, 1) - mean) < 6 * math.sqrt(mean)
    assert run(10, 3) == run(10, 3) != run(10, 4)


def test_rs_fec_corrects_what_is_sparse_and_says_so():
    f, plane = powered("HDR")
    a, b = cable(f)
    plane.faults.noise(a, 1e-8, 0)
    plane.faults.settle([a, b], 100 * S)
    lanes = f.lane_counters
    for port in (a, b):
        assert f.counters["symbol_error_counter"][port] == 0
        fixed = int(lanes["port_fec_correctable_block_ctr"][port])
        # a bit in 1e8 of 4 x 53.125 Gb/s for 100 s, each in a block of its own
        assert abs(fixed - 4 * 53.125e9 * 1e-8 * 100) < 6 * math.sqrt(2.2e5) + 500
        assert lanes["port_fec_uncorrectable_block_ctr"][port] == 0
    assert not f.port_loss.any()


def test_pma_stops_at_the_width_of_the_field():
    f, s, h = line(2)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    row = int(f.port(s[0], 7))
    f.port_info_ext[...] = 0
    plane.faults.noise(row, 1e-5, 0)
    data = PortCounters.zeros()
    PortCounters.port_select.set(data, 7)

    def read(struct, attr):
        while True:
            got = ask(plane, sm, 100 * S, klass=4, attr=attr, dlid=1, data=data)
            if got is not None:
                return struct.unpack(got[1][: struct.size].tobytes())

    assert read(PortCounters, 0x12)["symbol_error_counter"] == 65535
    assert read(PortCountersExtended, 0x1D)["symbol_error_counter"] > 10**6


@pytest.mark.parametrize("generation", ["QDR", "EDR"])
def test_mads_are_lost_as_port_loss_says(generation):
    """A request and its answer over one noisy cable: (1 - p)^2 of them come back; each loss is a PortRcvErrors."""
    f, plane = powered(generation)
    f.port_info_ext[...] = 0
    host = f.node_names().index("host-0001")
    sender = next(p for p in f.ports_of(host, port0=False) if f.port_peer[p] >= 0)
    far = int(f.port_peer[sender])
    plane.faults.seed(3)
    plane.faults.noise(sender, 1e-4, 0)
    plane.faults.publish()
    a, b = f.port_loss[sender].tolist()
    assert (f.port_loss[far] == [a, b]).all() and not np.delete(f.port_loss, [sender, far], axis=0).any()
    p = 1 - math.exp(-(a + b * PACKET_OCTETS))
    assert 0.1 < p < 0.5
    n = 4000
    answered = sum(len(plane.send(requests(100, path=(1,)), sender, 0)) for _ in range(n // 100))
    mean = n * (1 - p) ** 2
    assert abs(answered - mean) < 6 * math.sqrt(n / 4), (answered, mean)
    errors = f.counters["port_rcv_errors"]
    assert int(errors[sender]) + int(errors[far]) == n - answered
    # IBA 7.12: more than LocalPhyErrors in a row recover the link, which both ends count; the receiver raises 129
    links = f.counters["local_link_integrity_errors"]
    recovered = f.counters["link_error_recovery_counter"]
    assert recovered[sender] == recovered[far] == links[sender] + links[far]
    traps = [t.trap for t in plane.take_notices()]
    assert traps.count(129) == int(links[sender] + links[far])


def test_a_bad_cable_loses_no_more_than_its_bits():
    f, plane = powered()
    port = next(p for p in f.ports_of(int(f.cas[0]), port0=False) if f.port_peer[p] >= 0)
    plane.faults.noise(port, 1e-15, 0)
    assert len(plane.send(requests(1000, path=(1,)), port, 0)) == 1000


def test_a_cut_link_stays_cut_whatever_a_manager_asks():
    f, plane = powered()
    a, b = cable(f)
    plane.faults.cut(a, S)
    assert states(f, a, b) == [DOWN, DOWN]
    assert [int(f.counters["link_downed_counter"][p]) for p in (a, b)] == [1, 1]
    host = next(p for p in f.ports_of(int(f.cas[0]), port0=False) if f.port_peer[p] >= 0)
    leaf = int(f.port_node[a])
    assert int(f.port_node[f.port_peer[host]]) == leaf
    number = int(f.port_num[a])
    info = ask(plane, host, attr=0x15, mod=number, path=(1,))[1][:64]
    for phys in (PhysState.POLLING, PhysState.DISABLED, PhysState.POLLING):
        PortInfo.port_state.set(info, 0)
        PortInfo.port_phys_state.set(info, phys)
        assert ask(plane, host, method=SET, attr=0x15, mod=number, path=(1,), data=info)[0] == 0
        assert int(f.port_state[a]) == PortState.DOWN
    traps = {(t.port, t.trap, t.detail) for t in plane.take_notices()}
    assert traps == {(f.node_base[f.port_node[p]], 128, f.port_num[p]) for p in (a, b)}
    plane.faults.mend(b, 2 * S)
    assert states(f, a, b) == [UP, UP]


def test_a_downgraded_link_trains_at_what_is_left_and_recovers():
    f, plane = powered("EDR")
    a, b = cable(f)
    before = f.port_info[[a, b]].copy()
    plane.faults.limit(a, 1, SPEED_BY_NAME["QDR"].code, S)
    for port in (a, b):
        info = f.port_info[port]
        assert PortInfo.link_width_active.get(info) == WIDTH_BITS[1]
        assert PortInfo.link_speed_active.get(info) == 4 and PortInfo.link_speed_ext_active.get(info) == 0
        assert f.counters["link_downed_counter"][port] == 1
    assert states(f, a, b) == [UP, UP]
    for lanes, code, what in ((12, None, "support"), (None, 8, "support at most EDR")):
        with pytest.raises(InputError, match=what):
            plane.faults.limit(a, lanes, code, S)
    plane.faults.unlimit(b, 2 * S)
    assert (f.port_info[[a, b]] == before).all()


def test_a_switch_without_power_forgets():
    f, plane = powered()
    spine = f.node_names().index("spine-1")
    switch = int(f.switch_of_node[spine])
    rows = list(f.ports_of(spine, port0=True))
    fresh = {name: getattr(f, name)[switch].copy() for name in ("lft", "mft", "switch_info")}
    fresh_info, fresh_sl2vl = f.port_info[rows].copy(), f.sl2vl.copy()
    # what a manager leaves
    PortInfo.lid.set(f.port_info, 77, rows[:1])
    PortInfo.mkey.set(f.port_info, 5, rows[:1])
    PortInfo.hoq_life.set(f.port_info, 3, rows[1:])
    SwitchInfo.linear_fdb_top.set(f.switch_info, 40, [switch])
    f.lft[switch, :40], f.mft[switch, 3] = 2, 1
    f.sl2vl[int(f.sl2vl_base[rows[0]]) + 3] = 0
    f.counters["port_xmit_data"][rows] = 9
    peers = [int(f.port_peer[p]) for p in rows[1:]]
    plane.faults.power(spine, False, S)
    assert states(f, *rows[1:], *peers) == [DOWN] * 2 * len(peers)
    assert f.counters["link_downed_counter"][peers].tolist() == [1] * len(peers)
    assert {t.port for t in plane.take_notices()} == {f.node_base[f.port_node[p]] for p in peers}
    plane.faults.power(spine, True, 2 * S)
    assert states(f, *rows[1:], *peers) == [UP] * 2 * len(peers)
    assert (f.lft[switch] == fresh["lft"]).all() and (f.mft[switch] == fresh["mft"]).all()
    assert (f.sl2vl == fresh_sl2vl).all() and (f.port_info[rows] == fresh_info).all()
    assert not f.counters["port_xmit_data"][rows].any() and f.counters["link_downed_counter"][rows].sum() == 0
    with pytest.raises(InputError, match="not a switch"):
        plane.faults.power(int(f.cas[0]), False, S)


def test_a_blocked_port_makes_its_peer_wait_and_discard():
    """Behind a switch MADs on VL0 wait for HOQLife (4.096 us times 2^HOQLife) and are gone; SMPs on VL15 pass."""
    f, s, h = line(2)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    out, into = int(f.port(s[0], 7)), int(f.port(s[1], 8))
    plane.faults.slow(into, 0.0, 0)
    PortInfo.hoq_life.set(f.port_info, 10, [out])
    data = PortCounters.zeros()
    PortCounters.port_select.set(data, 7)
    for _ in range(3):
        assert ask(plane, sm, S, klass=4, attr=0x12, dlid=2, data=data) is None
        assert ask(plane, sm, S, klass=1, attr=0x15, dlid=2, mod=1) is not None
    assert f.counters["port_xmit_discards"][out] == 3 and f.counters["port_xmit_discards"][into] == 0
    assert f.detail_counters["port_sw_hoq_lifetime_limit_discards"][out] == 3
    assert f.counters["port_xmit_wait"][out] > 0
    plane.faults.slow(into, None, 2 * S)
    assert ask(plane, sm, 3 * S, klass=4, attr=0x12, dlid=2, data=data)[0] == 0
    for gbps in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="gbps"):
            plane.faults.slow(into, gbps)


@pytest.mark.parametrize("ber", [-1e-9, 1.0, math.nan])
def test_a_ratio_that_is_none_is_refused(ber):
    f, plane = powered()
    with pytest.raises(InputError, match="bit error ratio"):
        plane.faults.noise(cable(f)[0], ber)


@pytest.mark.parametrize(("generation", "length", "fixes"), [("HDR", 544, 15), ("NDR", 544, 15), ("EDR", 528, 7)])
@pytest.mark.parametrize("ber", [1e-7, 1e-5, 2e-4, 1e-3, 5e-3, 0.14])
def test_expected_errors_are_binomial_in_symbols_of_ten_bits(generation, length, fixes, ber):
    """IEEE 802.3 clause 91 and 119: a codeword is lost where more symbols are wrong than the code corrects; summed with 200 digits."""
    f, plane = powered(generation)
    a, b = cable(f)
    advertise_fec(f)
    PortInfoExtended.fec_mode_active.set(f.port_info_ext, 2)
    plane.faults.noise(a, ber, 0)
    with localcontext(prec=200):
        q = 1 - (1 - Decimal(ber)) ** 10
        some = [math.comb(length, k) * q**k * (1 - q) ** (length - k) for k in range(fixes + 1)]
        corrected, lost = float(sum(some[1:])), float(1 - sum(some))
    codewords = 4 * SPEED_BY_NAME[generation].lane_gbps * 1e9 / (10 * length)
    for port in (a, b):
        found = plane.faults.expected_errors(port)
        assert found["fec"] == f"RS({length},514)" and found["raw_ber"] == ber
        assert found["corrected_codewords_per_s"] == pytest.approx(codewords * corrected, rel=1e-6)
        assert found["lost_codewords_per_s"] == pytest.approx(codewords * lost, rel=1e-6)
    plane.faults.noise(a, 0.0, 0)
    assert not plane.faults.expected_errors(a)["symbol_errors_per_s"]


def test_without_a_code_every_wrong_bit_is_a_symbol_error():
    f, plane = powered("QDR")
    a, _ = cable(f)
    plane.faults.noise(a, 1e-9, 0)
    assert plane.faults.expected_errors(a)["symbol_errors_per_s"] == pytest.approx(40e9 * 1e-9)
