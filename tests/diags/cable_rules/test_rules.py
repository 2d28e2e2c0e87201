"""Each rule by what IBA or its source says of the counter: who is named, with what numbers, and what is not accused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.diags.cable_rules.bit_errors import needed_seconds
from softib.diags.cable_rules.case import Case, line_rate, signalling_rate
from softib.diags.cable_rules.judge import judge
from softib.diags.cable_rules.thresholds import shipped
from softib.diags.finding import Severity
from softib.diags.observations import Observations, ObservedPorts
from tests.diags.cable_rules.observed import CABLES, codes, observed, ports, row, tables

HOUR = 3600.0
TICKS = signalling_rate(400.0) / 10
"""Ticks of PortXmitWait in a second at NDR: ten bit times of a lane (IBA 16.1.3.2)."""


def words(share: float, seconds: float) -> float:
    """PortXmitData of a port that sends ``share`` of 400 Gb/s."""
    return share * 400e9 * seconds / 32


def test_line_rates_are_those_of_the_specification() -> None:
    assert (line_rate(400.0), line_rate(32.0)) == (
        pytest.approx(425e9),
        pytest.approx(40e9),
    )  # NDR and QDR, 4X (IBA 5.6)


def test_an_ndr_link_needs_the_125_minutes_that_nvidia_says() -> None:
    """Three errors at 1e-15: 125 minutes of 400 Gb/s, a little less on a line of 425."""
    case = Case(observed(60), shipped(), None)
    assert 115 * 60 < needed_seconds(case, 400.0) <= 125 * 60


def test_bit_errors_name_the_receiving_end_and_exact_bounds() -> None:
    found = judge(observed(HOUR, {"symbol_error_counter": {"spine[1]": 400}}))
    assert codes(found) == ["link-bit-errors"]
    f = found[0]
    assert str(f.where[0]) == "spine[1]" and {str(w) for w in f.where} == {"spine[1]", "leaf-0[3]"}
    assert f.evidence["ber"] == pytest.approx(400 / (425e9 * HOUR), rel=1e-6)
    assert f.evidence["ber_bounds"][0] < f.evidence["ber"] < f.evidence["ber_bounds"][1]
    assert f.severity == Severity.ERROR  # more than 120 an hour are fatal (NVSentinel)
    assert "leaf-0[3] (it sends)" in f.evidence["direction"]


def test_errors_in_both_directions_accuse_the_cable() -> None:
    f = judge(observed(HOUR, {"symbol_error_counter": {"spine[1]": 400, "leaf-0[3]": 300}}))[0]
    assert "both directions" in f.evidence["direction"]


def test_few_errors_in_a_long_time_are_chance() -> None:
    """Nine hours of NDR at 1e-15 give 14 errors on average: 20 are no finding."""
    assert codes(judge(observed(9 * HOUR, {"symbol_error_counter": {"spine[1]": 20}}))) == []


def test_a_burst_in_one_interval_is_not_diluted_by_clean_hours() -> None:
    rounds = [{} for _ in range(200)] + [{"symbol_error_counter": {"h0[1]": 12}}]
    assert codes(judge(observed(300, *rounds))) == ["link-bit-errors"]


def test_training_makes_errors_that_tell_nothing() -> None:
    """SymbolErrorCounter of an interval in which the link fell is of its training."""
    rounds = {"symbol_error_counter": {"h0[1]": 900}, "link_downed_counter": {"h0[1]": 1, "leaf-0[1]": 1}}
    assert codes(judge(observed(300, rounds))) == []


def test_short_observation_is_said_and_accuses_nobody() -> None:
    found = judge(observed(300, {}))
    assert [f.code for f in found] == ["observed-too-short"]
    assert found[0].evidence["needed_s"] > 6000


def test_a_link_between_switches_that_fell_once_is_named_and_a_hosts_only_when_again() -> None:
    once = {"link_downed_counter": {"leaf-0[3]": 1, "spine[1]": 1, "h0[1]": 1, "leaf-0[1]": 1}}
    found = judge(observed(300, once, {}))
    assert codes(found) == ["link-flaps"] and {str(w) for w in found[0].where} == {"leaf-0[3]", "spine[1]"}
    found = judge(observed(300, {"link_downed_counter": {"h0[1]": 2, "leaf-0[1]": 2}}))
    assert codes(found) == ["link-flaps"]
    assert found[0].evidence["isolate"]["disconnected_nodes"] == 1


def test_a_host_that_starts_again_is_no_flap() -> None:
    """Its counters began anew: the switch alone counted the fall."""
    rounds = [{"link_downed_counter": {"leaf-0[1]": 1}}, {"link_downed_counter": {"leaf-0[1]": 1}}]
    assert codes(judge(observed(300, *rounds, unknown=((0, "h0[1]"), (1, "h0[1]"))))) == []


def test_a_switch_that_starts_again_is_one_information() -> None:
    fall = {"link_downed_counter": {"h0[1]": 1, "h1[1]": 1, "spine[1]": 1}}
    unknown = tuple((0, f"leaf-0[{p}]") for p in (1, 2, 3))
    found = judge(observed(300, fall, {}, unknown=unknown))
    assert codes(found) == [] and "switch-restarted" in [f.code for f in found]
    down = {"state": [{}, dict.fromkeys(("h0[1]", "h1[1]", "spine[1]"), 1.0)]}
    unknown += tuple((1, f"leaf-0[{p}]") for p in (1, 2, 3))
    assert codes(judge(observed(300, fall, {}, unknown=unknown, level=down))) == ["switch-gone"]


def test_a_leaf_without_power_takes_its_hosts_along() -> None:
    """Four hosts behind it cannot be reached either, and tell nothing: its two spines are all that can. (Half of its neighbours never told that they lost it.)"""
    guid = np.array([1, 2, 3, 4, *[10] * 6, 20, 21], np.uint64)
    portnum = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 1, 1], np.int32)
    peer = np.array([4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9], np.int32)
    names = ("h1", "h2", "h3", "h4", *["leaf"] * 6, "spine-1", "spine-2")
    made = ObservedPorts(guid, portnum, guid >= 10, names, np.arange(1, 13, dtype=np.int32), peer, np.full(12, 400.0))
    begin = np.zeros((2, 12), np.int64) + np.array([[0], [300 * 10**9]])
    known = np.array([guid >= 20, guid >= 20])
    rose = np.array([guid >= 20, np.zeros(12, bool)]).astype(np.uint64)
    state = np.where(known, 1.0, np.nan)
    o = Observations(
        made,
        begin,
        begin + 300 * 10**9,
        {"link_downed_counter": rose},
        {"link_downed_counter": known},
        {"state": state},
    )
    found = judge(o)
    assert codes(found) == ["switch-gone"] and str(found[0].where[0]) == "leaf"
    assert "2 of its 6 neighbours (4 told nothing)" in found[0].message


def test_fec_margin_is_judged_before_packets_are_lost() -> None:
    """Corrected symbols over line bits; the limit of PAM4 is 2.4e-4."""
    symbols = 1e-4 * 425e9 * 60
    found = judge(observed(60, {"port_fec_corrected_symbol_ctr": {"h2[1]": symbols}}))
    assert codes(found) == ["link-pre-fec-errors"]
    assert found[0].evidence["pre_fec_ber"]["h2[1]"] == pytest.approx(1e-4, rel=1e-6)
    assert found[0].severity == Severity.WARNING
    found = judge(observed(60, {}, level={"pre_fec_ber": [{"h2[1]": 3e-4}]}))
    assert [f.severity for f in found if f.code == "link-pre-fec-errors"] == [Severity.ERROR]
    both = {"h2[1]": 3e-4, "leaf-1[1]": 2e-9}  # stated by both ends: none is "not observed"
    found = judge(observed(60, {}, level={"pre_fec_ber": [both]}))
    assert "not observed" not in found[0].message and "only what h2[1] receives" in found[0].message


def test_the_ratio_before_fec_is_the_injected_one_where_answers_are_late() -> None:
    """A late answer moves a third of a round's corrected symbols into the next one; the cable's ratio stays."""
    late = [2 / 3, 4 / 3] * 24  # rounds of 5 s, four minutes
    rounds = [{"port_fec_corrected_symbol_ctr": {"h2[1]": share * 2e-4 * 425e9 * 5}} for share in late]
    (one,) = (f for f in judge(observed(5, *rounds)) if f.code == "link-pre-fec-errors")
    assert one.evidence["pre_fec_ber"]["h2[1]"] == pytest.approx(2e-4, rel=0.01)
    assert one.severity == Severity.WARNING  # 2.7e-4, which the worst round shows, would be above the limit
    burst = [{"port_fec_corrected_symbol_ctr": {"h2[1]": 1e-3 * 425e9 * 60}}, *[{}] * 10]
    (one,) = (f for f in judge(observed(60, *burst)) if f.code == "link-pre-fec-errors")
    assert one.evidence["pre_fec_ber"]["h2[1]"] == pytest.approx(1e-3, rel=1e-3)


def test_fec_margin_of_a_counter_that_is_full() -> None:
    """PortFECCorrectedSymbolCtr has 32 bits: full after 202 s at 5e-5, as the histogram of codewords is not."""
    full = {"stuck_port_fec_corrected_symbol_ctr": [{"h2[1]": 1, "h0[1]": 0}]}
    bins = {f"fec_codewords_{k}": {"h2[1]": n} for k, n in enumerate((1e9, 425e9 * 60 * 5e-5 - 2e8, 1e8, *[0] * 13))}
    found = judge(observed(60, bins, level=full))
    assert codes(found) == ["link-pre-fec-errors"]  # and not counters-stuck: the histogram counts on
    assert found[0].evidence["pre_fec_ber"]["h2[1]"] == pytest.approx(5e-5, rel=1e-6)
    none = tuple((0, place) for place in ("h2[1]",))
    found = judge(observed(60, {}, level=full, unknown=none))
    stuck = next(f for f in found if f.code == "counters-stuck")
    assert "port_fec_corrected_symbol_ctr" in str(stuck.to_json()) and stuck.severity == Severity.INFO  # full before
    # It got full in this minute: at least what it still could count.
    least = {"least_port_fec_corrected_symbol_ctr": [{"h2[1]": 2.0**32 - 1e6, "h0[1]": float("nan")}]}
    found = judge(
        observed(20, {}, level={"stuck_port_fec_corrected_symbol_ctr": [{"h2[1]": 2}], **least}, unknown=none)
    )
    (margin,) = (f for f in found if f.code == "link-pre-fec-errors")
    assert margin.evidence["pre_fec_ber"]["h2[1]"] == pytest.approx((2.0**32 - 1e6) / (20 * 425e9), rel=1e-6)


def test_packets_marked_bad_further_back_accuse_nobody_here() -> None:
    """PortRcvRemotePhysicalErrors: the packet came with the bad-packet delimiter (IBA 16.1.3.5)."""
    rounds = {
        "port_rcv_errors": {"leaf-0[3]": 50},
        "port_rcv_pkts": {"leaf-0[3]": 10**7, "h2[1]": 10**7},
        "port_rcv_remote_physical_errors": {"h2[1]": 50},
    }
    found = judge(observed(HOUR, rounds))
    assert codes(found) == ["link-packet-errors"] and str(found[0].where[0]) == "leaf-0[3]"


def test_overruns_accuse_the_receiver() -> None:
    rounds = {
        "port_rcv_errors": {"h1[1]": 50},
        "port_buffer_overrun_errors": {"h1[1]": 50},
        "excessive_buffer_overrun_errors": {"h1[1]": 1},
    }
    found = judge(observed(60, rounds))
    assert codes(found) == ["receive-buffer-overruns"] and str(found[0].where[0]) == "h1[1]"


def waiting(shares: dict[str, float], busy: dict[str, float], seconds: float = 60.0) -> dict[str, dict[str, float]]:
    """Counters of an interval."""
    return {
        "port_xmit_wait": {p: s * TICKS * seconds for p, s in shares.items()},
        "port_xmit_data": {p: words(s, seconds) for p, s in busy.items()},
    }


def test_waiting_is_followed_to_the_host_that_drains_slowly() -> None:
    """h0 sends to h2, which drains a tenth: every port on the way waits, h2 is named, h0 is a victim, the rest branches."""
    way = ["h0[1]", "leaf-0[3]", "spine[2]", "leaf-1[1]"]
    found = judge(observed(60, waiting(dict.fromkeys(way, 0.9), dict.fromkeys(way, 0.1))), tables())
    assert codes(found) == ["slow-receiver"]
    f = found[0]
    assert str(f.where[0]) == "h2[1]" and f.evidence["root"] == "leaf-1[1]"
    assert set(f.evidence["branches"]) == {"leaf-0[3]", "spine[2]"} and set(f.evidence["victims"]) == {"h0[1]"}
    assert f.evidence["drained_gbps"] == pytest.approx(40.0, rel=0.01)


def test_a_hot_spot_by_traffic_is_no_fault() -> None:
    """h0, h1 and h3 send to h2 as fast as they can: leaf-1[1] is full and never waits."""
    shares = {"h0[1]": 0.7, "h1[1]": 0.7, "h3[1]": 0.6, "leaf-0[3]": 0.3, "spine[2]": 0.4}
    busy = {"h0[1]": 0.3, "h1[1]": 0.3, "h3[1]": 0.4, "leaf-0[3]": 0.6, "spine[2]": 0.6, "leaf-1[1]": 0.99}
    found = judge(observed(60, waiting(shares, busy)), tables())
    assert codes(found) == []
    hot = next(f for f in found if f.code == "congestion-hot-spot")
    assert str(hot.where[0]) == "leaf-1[1]" and hot.evidence["n_victims"] == 3


def test_the_tables_decide_which_branch_is_followed() -> None:
    """leaf-0[3] waits, h2's port is slow; h0's own port is busy too, but no traffic out of leaf-0[3] goes there."""
    way = ["leaf-0[3]", "spine[2]", "leaf-1[1]"]
    busy = {**dict.fromkeys(way, 0.1), "leaf-0[1]": 0.95, "spine[1]": 0.95}
    found = judge(observed(60, waiting(dict.fromkeys(way, 0.9), busy)), tables())
    assert [str(f.where[0]) for f in found if f.code in ("slow-receiver", "congestion-hot-spot")] == ["h2[1]"]


def test_a_switch_port_that_takes_nothing_is_named_where_nothing_behind_it_is_busy() -> None:
    found = judge(observed(60, waiting({"leaf-0[3]": 0.9}, {"leaf-0[3]": 0.05})), tables())
    assert codes(found) == ["slow-receiver"] and str(found[0].where[0]) == "spine[1]"


def test_one_fall_between_switches_asks_for_no_isolation_and_two_do() -> None:
    ends = ("leaf-0[3]", "spine[1]")
    once, twice = ({"link_downed_counter": dict.fromkeys(ends, n)} for n in (1, 2))
    (one,) = (f for f in judge(observed(600, once)) if f.code == "link-flaps")
    (two,) = (f for f in judge(observed(600, twice)) if f.code == "link-flaps")
    assert "isolate" not in one.evidence and two.evidence["isolate"]["now"] is True
    down = {"state": [dict.fromkeys(ends, 1.0)]}  # it has not come back
    (gone,) = (f for f in judge(observed(600, once, level=down)) if f.code == "link-flaps")
    assert gone.evidence["isolate"]["now"] is True


def test_a_link_that_trained_low_is_named_and_keeps_its_width_when_it_falls() -> None:
    """PortInfo's words alone: 1 of 4 lanes of NDR is 100 of 400 Gb/s. Where most of a kind run low, that is how it was built."""
    ends = ("leaf-0[3]", "spine[1]")
    every = {p: 400.0 for c in CABLES for p in c}
    rate = [every | dict.fromkeys(ends, 100.0)]
    level = {"rate_gbps": rate, "best_gbps": [every], "lanes": [dict.fromkeys(every, 4.0) | dict.fromkeys(ends, 1.0)]}
    found = judge(observed(600, {}, level=level))
    assert codes(found) == ["link-narrow"] and {str(w) for w in found[0].where} == set(ends)
    assert "100 Gb/s on 1 of 4 lanes, both ends support 400" in found[0].message
    fell = {"link_downed_counter": dict.fromkeys(ends, 2)}
    (one,) = (f for f in judge(observed(600, fell, level=level)) if f.severity > 0)
    assert one.code == "link-narrow" and one.message.endswith("; also link-flaps")
    level["rate_gbps"] = [dict.fromkeys(every, 200.0)]
    assert codes(judge(observed(600, {}, level=level))) == []


def test_receivers_that_are_full_one_after_the_other_are_traffic() -> None:
    """A shuffle: both hosts of leaf-0 send to h2, then to h3; each receiver is full for half of the time, and all that time spine[2] waits."""
    waits = {"h0[1]": 0.5, "h1[1]": 0.5, "leaf-0[3]": 0.9, "spine[2]": 0.9}
    busy = {"h0[1]": 0.47, "h1[1]": 0.47, "leaf-0[3]": 0.1, "spine[2]": 0.1, "leaf-1[1]": 0.47, "leaf-1[2]": 0.47}
    found = judge(observed(60, waiting(waits, busy)), tables())
    assert codes(found) == []
    assert {str(f.where[0]) for f in found if f.code == "congestion-hot-spot"} == {"leaf-1[1]", "leaf-1[2]"}
    busy["leaf-1[2]"] = 0.05  # neither is full for as long as spine[2] waits: leaf-1 takes nothing
    assert codes(judge(observed(60, waiting(waits, busy)), tables())) == ["slow-receiver"]


def test_a_port_whose_link_fell_says_nothing_of_the_whole_interval() -> None:
    """leaf-1[1] was full until its host started again: half busy, while spine[2] waited longer than that (story hot-spot of seed 17060 on rails-504)."""
    traffic = waiting({"leaf-0[3]": 0.7, "spine[2]": 0.65}, {"leaf-0[3]": 0.3, "spine[2]": 0.34, "leaf-1[1]": 0.55})
    assert codes(judge(observed(300, traffic), tables())) == ["slow-receiver"]
    traffic["link_downed_counter"] = {"leaf-1[1]": 1}
    assert codes(judge(observed(300, traffic, unknown=((0, "h2[1]"),)), tables())) == []
    del traffic["link_downed_counter"]  # it had fallen before, and came up again in this interval
    level = {"state": [{"leaf-1[1]": 1.0}, {"leaf-1[1]": 4.0}]}
    assert codes(judge(observed(300, {}, traffic, level=level), tables())) == []


@pytest.mark.parametrize(("waits", "named"), [(0.045, []), (0.005, ["spine[1]"])])
def test_a_port_that_sends_and_waits_in_bursts_is_what_others_wait_for(waits: float, named: list[str]) -> None:
    """spine[2] has something to send for as long as leaf-0[3] waits, partly sending and partly waiting below the limit: traffic. Where it has not, spine[1] drains nothing."""
    found = judge(
        observed(60, waiting({"leaf-0[3]": 0.08, "spine[2]": waits}, {"leaf-0[3]": 0.03, "spine[2]": 0.06})), tables()
    )
    assert [str(f.where[0]) for f in found if f.code == "slow-receiver"] == named


def test_a_link_slower_than_its_peers_is_told_apart_from_a_hot_spot() -> None:
    made = ports()
    made.rate_gbps[[row("leaf-1[1]"), row("h2[1]")]] = 100.0
    way = ("h0[1]", "leaf-0[3]", "spine[2]")
    found = judge(
        observed(60, waiting(dict.fromkeys(way, 0.7), dict.fromkeys((*way, "leaf-1[1]"), 0.24)), of=made), tables()
    )
    assert codes(found) == ["congested-slow-link"]
    assert "runs at 100 Gb/s, its peers at" in next(f for f in found if f.code == "congested-slow-link").message


@pytest.mark.parametrize(("best", "says"), [(100.0, []), (400.0, ["congested-slow-link"])])
def test_an_older_adapter_at_its_full_rate_is_a_hot_spot_and_no_slow_link(best: float, says: list[str]) -> None:
    """h2 is of an older generation than its leaf and the other hosts: PortInfo says what both ends support. All of a switch slow (no peer is faster) is told as well."""
    made = ports(100.0 if says else 400.0)
    made.rate_gbps[[row("leaf-1[1]"), row("h2[1]")]] = 100.0
    way = ("h0[1]", "leaf-0[3]", "spine[2]")
    level = {"best_gbps": [{"leaf-1[1]": best, "h2[1]": best}]}
    traffic = waiting(dict.fromkeys(way, 0.7), {**dict.fromkeys(way, 0.24), "leaf-1[1]": 0.98 if says else 0.245})
    found = judge(observed(60, traffic, of=made, level=level), tables())
    assert codes(found) == says and ("congestion-hot-spot" in [f.code for f in found]) != bool(says)


def test_who_knocks_on_whose_partition() -> None:
    """PortRcvConstraintErrors at the leaf: the host behind that port sent them (IBA 10.9.4)."""
    found = judge(observed(60, {"port_rcv_constraint_errors": {"leaf-0[2]": 7}}))
    assert codes(found) == ["partition-violations"] and str(found[0].where[0]) == "h1[1]"


def test_a_host_that_dropped_packets_changes_no_sentence_about_a_switch() -> None:
    """Ports are judged by row, the host h0[1] before the leaf: it dropped what it received, and h1 sent what its leaf dropped."""
    found = judge(observed(60, {"port_rcv_constraint_errors": {"h0[1]": 5, "leaf-0[2]": 7}}))
    said = {str(f.where[0]): f.message for f in found if f.code == "partition-violations"}
    assert " received packets" in said["h0[1]"]
    assert " sends packets" in said["h1[1]"]


def test_smp_drops_are_of_management_not_of_a_cable() -> None:
    found = judge(observed(60, {"vl15_dropped": {"leaf-0[1]": 101}}))
    assert codes(found) == [] and "smp-drops" in [f.code for f in found]


def test_a_flow_control_watchdog_accuses_the_other_end() -> None:
    found = judge(observed(60, {"port_vl_xmit_flow_ctl_update_errors": {"leaf-0[3]": 2}}))
    assert codes(found) == ["flow-control-errors"] and str(found[0].where[0]) == "spine[1]"


def test_a_module_that_is_hot_or_has_become_warmer() -> None:
    level = {"module_temperature_c": [{"h0[1]": 40, "h1[1]": 69, "h2[1]": 71}, {"h0[1]": 51, "h1[1]": 69, "h2[1]": 71}]}
    found = judge(observed(60, {}, {}, level=level))
    assert sorted(str(f.where[0]) for f in found if f.code == "hot-module") == ["h0[1]", "h2[1]"]


def test_modules_that_all_become_warmer_accuse_none_of_them() -> None:
    """The room, or a job that begins: one information about all, and a warning for the one that rose by the limit more than the others."""
    hosts = ("h0[1]", "h1[1]", "h2[1]", "h3[1]")
    level = {"module_temperature_c": [dict.fromkeys(hosts, 40.0), {**dict.fromkeys(hosts, 52.0), "h3[1]": 63.0}]}
    found = {f.code: f for f in judge(observed(60, {}, {}, level=level))}
    assert found["modules-warmer"].severity == Severity.INFO and found["modules-warmer"].evidence["rise_c"] == 12
    assert [str(f.where[0]) for f in judge(observed(60, {}, {}, level=level)) if f.code == "hot-module"] == ["h3[1]"]
    level["module_temperature_c"][1] = dict.fromkeys(hosts, 72.0)
    assert codes(judge(observed(60, {}, {}, level=level))) == ["modules-warmer"]


def test_a_fan_of_a_switch_is_one_finding() -> None:
    leaf, rest = (
        ("leaf-0[1]", "leaf-0[2]", "leaf-0[3]"),
        ("leaf-1[1]", "leaf-1[2]", "leaf-1[3]", "spine[1]", "spine[2]"),
    )
    before = dict.fromkeys((*leaf, *rest), 45.0)
    found = judge(observed(60, {}, {}, level={"module_temperature_c": [before, before | dict.fromkeys(leaf, 58.0)]}))
    assert codes(found) == ["hot-modules"] and str(found[0].where[0]) == "leaf-0"


def test_cables_of_one_batch_are_one_finding() -> None:
    """All three of a batch, none of the other three: 1 of 20 draws of three, too little for six cables; twelve of 400 are enough (see stories)."""
    text = {"module_part": dict.fromkeys(("leaf-0[3]", "h0[1]", "h1[1]"), "MCP7Y00")}
    rounds = {"symbol_error_counter": dict.fromkeys(("leaf-0[3]", "h0[1]", "h1[1]"), 500)}
    assert codes(judge(observed(HOUR, rounds, of=ports(**text)))) == ["link-bit-errors"] * 3
    found = judge(observed(HOUR, rounds, of=ports(**text)), thresholds={"group_chance": 0.5})
    assert codes(found) == ["common-cause"]
    assert "MCP7Y00" in found[0].message or "leaf-0" in found[0].message


def test_no_more_are_isolated_at_once_than_the_limit() -> None:
    rounds = {"symbol_error_counter": dict.fromkeys(("h0[1]", "h1[1]", "h2[1]", "leaf-0[3]"), 500)}
    found = judge(observed(HOUR, rounds), thresholds={"isolations_at_least": 2})
    now = [f.evidence["isolate"]["now"] for f in found if "isolate" in f.evidence]
    assert now == [True, True, False, False]


def test_jobs_that_cross_are_in_the_evidence() -> None:
    found = judge(
        observed(HOUR, {"symbol_error_counter": {"h0[1]": 500}}),
        jobs_on=lambda guid, port: ["train"] if (guid, port) == (1, 1) else [],
    )
    assert found[0].evidence["jobs"] == ["train"]


def test_nothing_observed_is_no_finding() -> None:
    assert judge(observed(60)) == []


def test_recoveries_that_a_watchdog_explains_accuse_the_silent_port_and_no_cable_twice() -> None:
    """A counter of 2 bits a VL stands at once; the link recovers on (IBA 7.9.4)."""
    late, recovery = "port_vl_xmit_flow_ctl_update_errors", "link_error_recovery_counter"
    both = {"leaf-0[3]": 90, "spine[1]": 90}
    level = {f"stuck_{late}": [{"leaf-0[3]": 2, "spine[1]": 0}, {"leaf-0[3]": 1, "spine[1]": 0}]}
    found = judge(observed(60, {recovery: both, late: {}}, {recovery: both, late: {}}, level=level))
    assert codes(found) == ["flow-control-errors", "counters-stuck"] and str(found[0].where[0]) == "spine[1]"
    assert "or more" in found[0].message and found[0].evidence["LinkErrorRecoveryCounter"] == 180
    # Without the watchdog the recoveries speak against the cable.
    assert codes(judge(observed(60, {recovery: both}))) == ["link-packet-errors"]


def test_a_counter_that_gets_to_its_largest_value_accuses_its_cable() -> None:
    level = {"stuck_symbol_error_counter": [{"h0[1]": 0, "h1[1]": 1}, {"h0[1]": 2, "h1[1]": 1}]}
    found = judge(observed(60, {}, {}, level=level))
    assert codes(found) == ["counters-stuck", "counter-overflow"]
    assert str(found[1].where[0]) == "h0[1]" and found[0].evidence["ports"] == 2
    assert found[0].evidence["counters"] == {"symbol_error_counter": 2} and "reset" in found[0].advice
    # One that somebody has reset since is none.
    assert codes(judge(observed(60, {}, {}, level={"stuck_symbol_error_counter": [{"h1[1]": 1}, {"h1[1]": 0}]}))) == []


def fallen(switch: str, silent: str, late_s: float = 0.0) -> Observations:
    """Three intervals of 4 s: in the second one ``switch`` counts a link failure and goes down, and ``silent`` is no longer read; it was last
    read ``late_s`` after the switch's port."""
    state = [{switch: 4, silent: 4}, {switch: 1}, {switch: 1}]
    quiet = tuple((i, silent) for i in (1, 2))
    seen = observed(4, {}, {"link_downed_counter": {switch: 1}}, {}, level={"state": state}, unknown=quiet)
    shift = np.zeros_like(seen.end_ns)
    shift[:, row(silent)] = int(late_s * 1e9)
    return replace(seen, begin_ns=seen.begin_ns + shift, end_ns=seen.end_ns + shift)


@pytest.mark.parametrize("late_s", [0.0, 0.07])
def test_a_host_that_lost_its_link_and_does_not_answer_is_information(late_s) -> None:
    """It is off, or its cable failed: from here nothing tells. Its last reading, a moment after that of the switch, is from before."""
    found = [f for f in judge(fallen("leaf-0[1]", "h0[1]", late_s)) if f.code != "observed-too-short"]
    assert [(f.code, f.severity.name) for f in found] == [("hosts-gone", "INFO")]
    assert {str(place) for place in found[0].where} == {"h0[1]", "leaf-0[1]"} and "is down" in found[0].message


def test_a_host_that_restarted_is_no_finding() -> None:
    """It is read again, and its counters were reset."""
    seen = observed(
        4, {}, {"link_downed_counter": {"leaf-0[1]": 1}}, {}, level={"state": [{"leaf-0[1]": s} for s in (4, 1, 4)]}
    )
    assert [f.code for f in judge(seen) if f.code != "observed-too-short"] == []


@pytest.mark.parametrize("late_s", [0.0, 0.07])
def test_one_end_of_a_cable_between_switches_counts_though_the_other_was_read_a_moment_later(late_s) -> None:
    found = [f for f in judge(fallen("spine[1]", "leaf-0[3]", late_s)) if f.code != "observed-too-short"]
    assert [f.code for f in found] == ["link-flaps"] and "has not answered since" in found[0].message
