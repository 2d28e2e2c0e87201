"""Single faults in a three-level tree of pods, with names and without. The oracle is the planted fault.

Of one exchange between two pods there are two readings: an aggregation switch is then as similar to its own kind as to the
other's, and the two cables that were left alone would be a second swap. A dead switch leaves few free ports on each peer.
"""

from __future__ import annotations

import pytest

from softib.diags.check import check
from tests.diags.sites import Site

PODS, LEAVES, AGGREGATIONS, CORES, HOSTS = 4, 4, 4, 8, 4


def pods(named: bool = True, missing: tuple[int, int, int] | None = None) -> Site:
    """Four pods; port n of each core leads to pod n. ``missing``: (pod, leaf, port) without a host."""
    s = Site()

    def switch(key: str) -> None:
        s.nodes[key] = (True, 40, key if named else "Quantum Mellanox Technologies")

    for core in range(CORES):
        switch(f"core-{core + 1}")
    host = 0
    for pod in range(1, PODS + 1):
        for n in range(1, AGGREGATIONS + 1):
            switch(f"pod{pod}-agg{n}")
            for k in (1, 2):
                s.cables.append(((f"pod{pod}-agg{n}", 20 + k), (f"core-{2 * (n - 1) + k}", pod)))
        for n in range(1, LEAVES + 1):
            switch(f"pod{pod}-leaf{n}")
            s.cables += [((f"pod{pod}-leaf{n}", 20 + a), (f"pod{pod}-agg{a}", n)) for a in range(1, AGGREGATIONS + 1)]
            for port in range(1, HOSTS + 1):
                host += 1
                if (pod, n, port) != missing:
                    s.nodes[f"host{host}"] = (False, 1, f"c{host:04d} mlx5_0")
                    s.cables.append(((f"pod{pod}-leaf{n}", port), (f"host{host}", 1)))
    return s


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "ends",
    [
        (("pod1-agg1", 21), ("pod2-agg4", 22)),
        (("pod1-agg1", 21), ("pod2-agg4", 21)),
        (("pod3-agg2", 22), ("pod4-agg3", 22)),
        (("pod2-agg1", 22), ("pod3-agg2", 21)),
    ],
)
def test_one_swap_between_pods_is_one_finding(named: bool, ends: tuple[tuple[str, int], tuple[str, int]]) -> None:
    site = pods(named, missing=(4, 1, 2))
    before = {f.code for f in check(site.fabric())}
    peers = [dict(site.at(switch))[port] for switch, port in ends]
    site.replug({ends[0]: ends[1], ends[1]: ends[0]})
    (found,) = [f for f in check(site.fabric()) if f.code not in before]
    assert found.code == "swapped-cables"
    assert {(site.key_of[p.guid], p.portnum) for p in found.where} == {*ends, *peers}


@pytest.mark.parametrize("dead", ["core-5", "core-1", "pod2-agg3", "pod1-agg1", "pod3-leaf2", "pod4-agg4", "pod4-agg1"])
def test_a_dead_switch_without_a_name_is_one_finding_with_its_ports(dead: str) -> None:
    site = pods(named=False)
    before = {f.code for f in check(site.fabric())}
    freed = {peer for _, peer in site.at(dead) if site.nodes[peer[0]][0]}
    site.without({dead, *(peer[0] for _, peer in site.hosts_of(dead))})
    (found,) = [f for f in check(site.fabric()) if f.code not in before]
    assert found.code == "absent-switch"
    assert {(site.key_of[p.guid], p.portnum) for p in found.where} == freed


def test_a_plane_built_smaller_is_no_dead_switch() -> None:
    """Two of four groups of aggregation switches have one core each: that is how the site is built."""
    site = pods(named=False)
    before = {f.code for f in check(site.fabric())}
    site.without({"core-5", "core-7"})
    assert {f.code for f in check(site.fabric())} <= before


@pytest.mark.parametrize("port", [1, 2])
def test_a_host_that_only_its_free_port_implies(port: int) -> None:
    site = pods(named=False, missing=(3, 1, port))
    for n, key in enumerate(k for k, node in site.nodes.items() if not node[0]):
        site.nodes[key] = (False, 1, f"{'abcdefghijk'[n * 7 % 11]}{'pqrstuvwxyz'[n * 5 % 11]}{'klmnop'[n % 6]} mlx5_0")
    found = [f for f in check(site.fabric()) if f.code == "absent-host"]
    assert [{(site.key_of[p.guid], p.portnum) for p in f.where} for f in found] == [{("pod3-leaf1", port)}]
