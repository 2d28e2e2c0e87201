"""Links that are down now on the path of a failed job. Oracle: the planted fault. The fabric is a copy
of a routed tree from which the cables of the fault are taken, as a running one lists only linked ports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import softib
from softib.analysis.jobs.failure import explain_failure
from softib.analysis.routing import from_engine
from softib.api.fabric import as_fabric, result_of
from softib.api.progress import unwatched
from softib.diags.job_causes.paths import paths_between
from softib.diags.job_causes.site import site_of
from softib.fabric.plugging import delete_cables
from softib.job_logs.events import End, Event, JobLog

RECORDS = frozenset({"lids", "states", "lfts", "unlinked"})
A, B = "host-0001", "host-0008"


@pytest.fixture(scope="module")
def routed():
    generated = softib.generate("fat-tree", radix=4, levels=2)
    return from_engine(result_of(as_fabric(generated)), None, unwatched).fabric


def row(f, name):
    return next(p for p in range(f.sizes.ports) if f.port_name(p) == name)


def without(routed, *names):
    """A copy of the fabric in which the cables of these ports have no link; their surviving ends counted
    the fall."""
    f = routed.copy()
    f.source = replace(f.source, format="running", records=RECORDS)
    rows = np.array([row(f, n) for n in names], np.int64)
    both = np.concatenate([rows, f.port_peer[rows]]).astype(np.int64)
    f.counters["link_downed_counter"][both] = 1
    cables = np.flatnonzero(np.isin(f.cable_port, both).any(axis=1))
    delete_cables(f, cables)
    return f


def why(f, a=A, b=B):
    site = site_of(f, None, "lfts" in f.source.records)
    event = Event("retry-exceeded", "perftest", "status 12", "x", 1, local=End(host=a), remote=End(host=b))
    return explain_failure(JobLog([event], lines=1, files=["x"]), site, None)


def first(result):
    cause = result.causes[0]
    return cause.code, cause.where[0].where if cause.where else ""


@pytest.mark.parametrize(("a", "b"), [(A, B), (B, A)])
def test_the_cable_of_an_end_that_lost_its_link_is_named_with_both_ends(routed, a, b):
    result = why(without(routed, f"{B}[1]"), a, b)
    assert first(result) == ("cable-down", f"{B}[1] ↔ leaf-4[2]")
    assert any("leaf-4[2], to which the table points" in n for n in result.notes)


def uplink(routed):
    """The ports of the first cable between switches on the tables' path from A to B."""
    ends = tuple(site_of(routed, None, True).ports_of_host(h)[0] for h in (A, B))
    up = paths_between(site_of(routed, None, True), [ends]).by_tables[1]
    return up, int(routed.port_peer[up])


def other_uplink(routed, up):
    node = int(routed.port_node[up])
    ports = [p for p in routed.ports_of(node) if p != up and routed.is_switch[routed.port_node[routed.port_peer[p]]]]
    return int(ports[0])


@pytest.mark.parametrize("routed_around", [False, True])
def test_a_cable_between_switches_is_named_with_both_ends(routed, routed_around):
    """Also where the manager has already moved the routes to another cable."""
    up, down = uplink(routed)
    f = without(routed, routed.port_name(up))
    if routed_around:
        table = f.lft[f.switch_of_node[f.port_node[up]]]
        table[table == f.port_num[up]] = f.port_num[other_uplink(routed, up)]
    result = why(f)
    assert first(result) == ("cable-down", f"{f.port_name(up)} ↔ {f.port_name(down)}")
    assert result.causes[0].where[0].probability > 0.8


def test_a_port_to_which_the_tables_point_is_named_though_its_other_end_fits_several(routed):
    """Both uplinks of a leaf failed: their other ends are known as a pair of ports, not one by one."""
    up, _ = uplink(routed)
    name = routed.port_name(up)
    f = without(routed, name, routed.port_name(other_uplink(routed, up)))
    result = why(f)
    assert result.causes[0].code == "cable-down"
    assert name in [w.where for w in result.causes[0].where]
    assert "None" not in str(result.text_lines()) and "its other end" in result.causes[0].command


@pytest.mark.parametrize("routed_around", [False, True])
def test_each_of_several_lost_cables_is_printed_once(routed, routed_around):
    """Two cables of a leaf to two spines: two places, not the four ports at their ends; each says which other ends it may have had."""
    up, _ = uplink(routed)
    other = other_uplink(routed, up)
    both = sorted((routed.port_name(up), routed.port_name(other)))
    f = without(routed, *both)
    if routed_around:
        f.lft[:, f.lid[row(f, f"{B}[1]")]] = 255
    cause = why(f).causes[0]
    places = [row(routed, w.where) for w in cause.where if w.probability > 0.2]
    lost = [(row(routed, name), int(routed.port_peer[row(routed, name)])) for name in both]
    assert cause.code == "cable-down" and len(places) == 2
    assert all(sum(p in cable for p in places) == 1 for cable in lost), cause.where
    others = ", ".join(routed.port_name(p) for cable in lost for p in cable if p not in places)
    assert f"{cause.where[0].where}: its other end was one of {others}" in cause.evidence


def test_a_dead_cable_that_no_path_of_the_pair_crosses_is_not_named(routed):
    up, _ = uplink(routed)
    result = why(without(routed, "leaf-2[3]"))
    assert not any("leaf-2" in w.where for c in result.causes for w in c.where)
    assert up >= 0


def leaf_ports(routed):
    node = list(routed.node_names()).index("leaf-4")
    return [routed.port_name(p) for p in routed.ports_of(node) if routed.port_peer[p] >= 0]


@pytest.mark.parametrize("tables_kept", [True, False])
def test_a_switch_without_any_link_is_named(routed, tables_kept):
    """A switch without power loses its tables, and the subnet manager removes the routes over it."""
    f = without(routed, *leaf_ports(routed))
    if not tables_kept:
        f.lft[f.switch_of_node[list(f.node_names()).index("leaf-4")]] = 255
        for host in (B, "host-0007"):
            f.lft[:, f.lid[row(f, f"{host}[1]")]] = 255
    assert first(why(f)) == ("switch-dead", "leaf-4")


def test_old_falls_of_a_cable_that_is_up_do_not_make_it_down(routed):
    f = without(routed)
    f.counters["link_downed_counter"][row(f, "leaf-4[2]")] = 3
    f.source = replace(f.source, records=RECORDS)
    share = {c.code: c.probability for c in why(f).causes}
    assert share.get("cable-down", 0) < 0.05 < share["flapping"]


def test_a_whole_fabric_of_a_file_is_ranked_as_before(routed):
    """No port lost its link: the causes do not depend on the records of the source."""
    f = routed.copy()
    f.source = replace(f.source, format="ibnetdiscover", records=frozenset({"lids", "lfts"}))
    g = f.copy()
    g.source = replace(f.source, records=RECORDS)
    assert [(c.code, c.probability) for c in why(f).causes] == [(c.code, c.probability) for c in why(g).causes]
