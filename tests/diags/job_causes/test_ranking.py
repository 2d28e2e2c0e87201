"""Ranking of causes. Oracles: laws of probability, a walk by hand through a small tree, and what
each planted counter means."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import softib
from softib.diags.job_causes.causes import BACKGROUND, CAUSES
from softib.diags.job_causes.paths import paths_between
from softib.diags.job_causes.ranking import Facts, rank
from softib.diags.job_causes.readings import Readings, Window
from softib.diags.job_causes.site import is_ethernet, site_of
from softib.diags.observations import Observations, ObservedPorts
from softib.job_logs.events import SYMPTOMS, End

SECOND = 10**9


@pytest.fixture(scope="module")
def tree():
    return softib.generate("fat-tree", radix=4, levels=2).arrays


def observed(fabric, rose=(), silent=(), rounds=4):
    """A history in which ``rose`` (NODE[PORT], counter, how much) happened in the second round, and
    the nodes ``silent`` answer nothing from the third on."""
    rows = np.flatnonzero(fabric.port_num > 0)
    names = [fabric.port_name(int(r)) for r in rows]
    node = [n.partition("[")[0] for n in names]
    place = {int(r): i for i, r in enumerate(rows)}
    peer = np.array([place.get(int(fabric.port_peer[r]), -1) for r in rows], np.int32)
    ports = ObservedPorts(
        fabric.node_guid[fabric.port_node[rows]],
        fabric.port_num[rows].astype(np.int32),
        fabric.is_switch[fabric.port_node[rows]],
        tuple(node),
        np.zeros(len(rows), np.int32),
        peer,
        np.full(len(rows), 100.0),
    )
    shape = (rounds, len(rows))
    counters = (
        "link_downed_counter",
        "port_rcv_errors",
        "symbol_error_counter",
        "port_sw_hoq_lifetime_limit_discards",
        "port_xmit_data",
    )
    counters += ("port_xmit_discards", "port_inactive_discards", "port_rcv_data", "link_error_recovery_counter")
    counters += ("port_buffer_overrun_errors",)
    increase = {c: np.zeros(shape, np.uint64) for c in counters}
    increase["port_xmit_data"][:] = 10**6
    known = {c: np.ones(shape, bool) for c in counters}
    for where, counter, count in rose:
        increase[counter][1, names.index(where)] = count
    end = np.arange(1, rounds + 1)[:, None] * SECOND * np.ones(shape, np.int64)
    begin = end - SECOND
    quiet = np.isin(node, list(silent))
    begin[2:, quiet] = end[2:, quiet]
    for column in known.values():
        column[2:, quiet] = False
    level = {"state": np.full(shape, 4.0)}
    for where, counter, _ in rose:
        if counter == "link_downed_counter":
            level["state"][-1, names.index(where)] = 1.0 if "down" not in where else 4.0
    return Observations(ports, begin, end.astype(np.int64), increase, known, level)


def named(tree, symptom, rose=(), silent=(), a="host-0001", b="host-0008", history=True, window=None, rounds=4):
    site = site_of(tree, observed(tree, rose, silent, rounds) if history else None, False)
    ends = [site.ports_of_host(h)[0] for h in (a, b)]
    paths = paths_between(site, [tuple(ends)])
    found = rank(
        Facts(symptom, {"pkeys-apart": False, "ethernet": False}, paths.weight, tuple(ends)), Readings(site, window)
    )
    first = found[0]
    where = site.link(first.port) if first.port >= 0 else tree.node_name(first.node) if first.node >= 0 else ""
    return first.cause.code, where, found


def test_probabilities_sum_to_1_and_are_in_order(tree):
    for symptom in SYMPTOMS:
        _, _, found = named(tree, symptom)
        assert sum(h.probability for h in found) == pytest.approx(1.0, abs=0.02)  # the largest is cut at .98
        assert all(a.probability >= b.probability for a, b in pairwise(found))


def test_the_table_holds_probabilities_with_a_reason():
    assert sum(c.prior for c in CAUSES) == pytest.approx(1.0)
    for cause in CAUSES:
        assert set(cause.symptoms) <= {*SYMPTOMS, "none", "completed"} and set(cause.features) <= set(BACKGROUND)
        assert sum(cause.symptoms.values()) <= 1.0 + 1e-9, cause.code
        assert all(0 < p < 1 for p in (*cause.symptoms.values(), *cause.features.values(), cause.prior))
        assert cause.reason and cause.meaning and cause.command


@pytest.mark.parametrize(
    ("rose", "silent", "cause", "where"),
    [
        ((("leaf-1[1]", "link_downed_counter", 1),), (), "cable-down", "host-0001[1] ↔ leaf-1[1]"),
        ((("leaf-4[2]", "port_rcv_errors", 500),), (), "bit-errors", "host-0008[1] ↔ leaf-4[2]"),
        ((("leaf-4[2]", "port_sw_hoq_lifetime_limit_discards", 9),), (), "slow-receiver", "host-0008[1] ↔ leaf-4[2]"),
        (
            (("spine-1[4]", "link_downed_counter", 1), ("spine-2[4]", "link_downed_counter", 1)),
            ("leaf-4", "host-0007", "host-0008"),
            "switch-dead",
            "leaf-4",
        ),
        ((), (), "process-died", ""),
        ((("leaf-4[2]", "link_error_recovery_counter", 40),), ("host-0008",), "bit-errors", "host-0008[1] ↔ leaf-4[2]"),
        ((), ("host-0008",), "slow-receiver", "host-0008[1] ↔ leaf-4[2]"),
    ],
)
def test_what_was_counted_names_the_part(tree, rose, silent, cause, where):
    code, location, _ = named(tree, "retry-exceeded", rose, silent)
    assert (code, location) == (cause, where)


def test_a_host_that_stops_answering_beside_an_unread_leaf_is_not_surely_without_a_link(tree):
    """Bit errors and a blocked port silence a host too, and no other end tells the link's state."""
    seen = observed(tree, silent=("host-0008",))
    unread = np.isin(np.array(seen.ports.node), ["leaf-4"])
    for known in seen.known.values():
        known[:, unread] = False
    seen.level["state"][:, unread] = np.nan
    seen.level["state"][2:, np.array(seen.ports.node) == "host-0008"] = np.nan
    site = site_of(tree, seen, False)
    ends = tuple(site.ports_of_host(h)[0] for h in ("host-0001", "host-0008"))
    paths = paths_between(site, [ends])
    share: dict[str, float] = {}
    for h in rank(Facts("retry-exceeded", {}, paths.weight, ends), Readings(site, None)):
        if h.port == min(ends[1], int(site.peer[ends[1]])) or h.node == tree.port_node[ends[1]]:
            share[h.cause.code] = share.get(h.cause.code, 0.0) + h.probability
    assert sum(share.values()) > 0.9
    assert share["cable-down"] < 0.8 and share["bit-errors"] > 0.05 and share["slow-receiver"] > 0.05


@pytest.mark.parametrize(
    ("symptom", "cause"),
    [("gid-missing", "gid-index"), ("mtu-refused", "mtu"), ("registration-failed", "registration-limit")],
)
def test_errors_that_a_host_decides_are_not_those_of_a_cable_full_of_errors(tree, symptom, cause):
    rose = (("leaf-1[1]", "port_rcv_errors", 10**6), ("leaf-1[1]", "symbol_error_counter", 10**6))
    assert named(tree, symptom, rose=rose)[0] == cause
    assert named(tree, "retry-exceeded", rose=rose)[0] == "bit-errors"


@pytest.mark.parametrize(("overruns", "cause"), [(0, "bit-errors"), (500, "slow-receiver")])
def test_packets_that_found_a_full_buffer_were_not_damaged(tree, overruns, cause):
    """PortRcvErrors counts both; its detail PortBufferOverrunErrors tells (IBA 16.1.4)."""
    rose = [("host-0008[1]", "port_rcv_errors", 500), ("host-0008[1]", "port_buffer_overrun_errors", overruns)]
    assert named(tree, "retry-exceeded", [r for r in rose if r[2]])[:2] == (cause, "host-0008[1] ↔ leaf-4[2]")


def test_a_damaged_cable_whose_host_no_longer_answers_is_not_a_slow_receiver(tree):
    rose = [("leaf-4[2]", "port_rcv_errors", 1157), ("leaf-4[2]", "port_sw_hoq_lifetime_limit_discards", 9)]
    code, where, _ = named(tree, "retry-exceeded", rose, silent=("host-0008",))
    assert (code, where) == ("bit-errors", "host-0008[1] ↔ leaf-4[2]")


@pytest.mark.parametrize(("symptom", "cause"), [("none", "nothing"), ("retry-exceeded", "switch-dead")])
def test_a_dead_switch_is_one_coincidence_and_explains_its_cables(tree, symptom, cause):
    """Its links fail together, so they are not independent witnesses against a job that ended well."""
    ports = [tree.port_name(int(tree.port_peer[p])) for p in tree.ports_of(tree.node_names().index("spine-1"))]
    rose = [(name, "link_downed_counter", 1) for name in ports if not name.startswith("host")]
    code, _, found = named(tree, symptom, rose, silent=("spine-1",))
    assert code == cause
    if cause == "switch-dead":
        assert sum(h.probability for h in found if h.cause.code == "cable-down") < 0.05


def test_errors_long_before_the_end_of_a_log_without_times_are_probably_not_its_cause(tree):
    """Packets were damaged in the second 2. A log that was written soon after it, and one that was written long after it: nine
    to one, each over its part of the window."""

    def odds(written_s: float) -> float:
        window = Window(written_s - 15.0, written_s + 1.0, "", written_s - 3.0)
        errors = [("leaf-1[1]", "port_rcv_errors", 500)]
        found = named(tree, "retry-exceeded", errors, window=window, rounds=17)[2]
        return float(
            np.divide(*(sum(h.probability for h in found if h.cause.code == c) for c in ("bit-errors", "process-died")))
        )

    assert odds(3) / odds(15) == pytest.approx((0.9 / 4) / (0.1 / 12), rel=0.05)


def test_errors_off_the_path_are_not_the_cause(tree):
    """host-0003 is on leaf-2: no path from host-0001 to host-0008 crosses its cable."""
    code, _, found = named(tree, "retry-exceeded", [("leaf-2[1]", "port_rcv_errors", 500)])
    assert code == "process-died"
    assert max(h.probability for h in found if h.cause.code == "bit-errors") < 0.3


def test_without_telemetry_nothing_is_sure(tree):
    _, _, found = named(tree, "retry-exceeded", history=False)
    by_code = {}
    for h in found:
        by_code[h.cause.code] = by_code.get(h.cause.code, 0) + h.probability
    assert max(by_code.values()) < 0.5 and by_code["unknown"] > 0.02


def test_shares_of_shortest_paths_are_those_of_every_path_counted(tree):
    """Oracle: all simple shortest paths, enumerated; each switch chooses evenly."""
    site = site_of(tree, None, False)
    a, b = (site.ports_of_host(h)[0] for h in ("host-0001", "host-0008"))
    weight = paths_between(site, [(a, b)]).weight
    spines = [n for n in range(tree.sizes.nodes) if tree.node_name(n).startswith("spine")]
    expected = {int(site.cable[a]): Fraction(1), int(site.cable[b]): Fraction(1)}
    for spine in spines:
        for port in tree.ports_of(spine):
            if tree.node_name(int(tree.port_node[site.peer[port]])) in ("leaf-1", "leaf-4"):
                expected[int(site.cable[port])] = Fraction(1, len(spines))
    assert {c: pytest.approx(float(w)) for c, w in expected.items()} == weight


def test_cables_that_all_failed_pairs_cross_weigh_most(tree):
    site = site_of(tree, None, False)
    ends = [site.ports_of_host(f"host-000{i}")[0] for i in (1, 3, 5, 8)]
    weight = paths_between(site, [(e, ends[-1]) for e in ends[:-1]]).weight
    assert max(weight, key=lambda c: weight[c]) == int(site.cable[ends[-1]])


@pytest.mark.parametrize(
    ("gid", "ethernet"),
    [
        ("::ffff:10.0.0.1", True),
        ("fe80::9a03:9bff:fe9a:2b3c", True),
        ("fe80::2:c903:ab:cdef", False),
        ("fe80::9803:9b03:9a:2b3c", False),
    ],
)
def test_gids_of_ethernet_are_told_by_their_form(gid, ethernet):
    """RFC 4291 appendix A: the EUI-64 of a MAC address has ff:fe in its middle."""
    assert is_ethernet(gid) == ethernet


def test_ends_are_found_by_gid_lid_host_and_device(tree):
    site = site_of(tree, None, False)
    port = site.ports_of_host("host-0003")[0]
    guid = int(tree.port_guid[port])
    gid = f"fe80::{guid >> 48:x}:{guid >> 32 & 0xFFFF:x}:{guid >> 16 & 0xFFFF:x}:{guid & 0xFFFF:x}"
    assert site.ports_of(End(gid=gid)) == ([port], "")
    assert site.ports_of(End(host="HOST-0003.example")) == ([port], "")
    assert site.ports_of(End(gid="fe80::dead")) == ([], "GID fe80::dead is not in this fabric")
    assert site.ports_of(End(lid=999))[1] == "no port of this fabric has LID 999"


@pytest.mark.parametrize("read_after", [True, False])
def test_a_history_that_ends_before_the_failure_does_not_show_that_a_cable_was_good(tree, read_after):
    """The rounds end at 4 s. A port that was last read 26 s before the failure may have counted errors since."""
    window = Window(0.0, 400.0, "", failed_s=4.0 if read_after else 30.0)
    site = site_of(tree, observed(tree), False)
    readings = Readings(site, window)
    ends = [site.ports_of_host(h)[0] for h in ("host-0001", "host-0008")]
    absent = 0 if read_after else -1
    for feature in (readings.link, readings.damaged, readings.waits):
        assert feature[ends[0]] == absent
    assert readings.covers(ends) is read_after
    of_cables = [h for h in named(tree, "retry-exceeded", window=window)[2] if h.cause.scope == "cable"]
    assert (sum(h.probability for h in of_cables) > 0.3) is not read_after


def test_what_was_counted_before_a_hole_stays(tree):
    rose = (("leaf-1[1]", "link_downed_counter", 1),)
    window = Window(0.0, 400.0, "", failed_s=140.0)
    assert named(tree, "retry-exceeded", rose, window=window)[0] == "cable-down"
