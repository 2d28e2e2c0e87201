"""One exchange of plugs between two pods of a three-level tree: an aggregation switch is then as similar to its own kind as
to the other's, and the two cables that were left alone would be a second swap. The oracle is the exchange."""

from __future__ import annotations

import pytest

from softib.diags.check import check
from tests.diags.sites import Site

PODS, LEAVES, AGGREGATIONS, CORES, HOSTS = 4, 4, 4, 8, 4


def pods(named: bool = True) -> Site:
    """Four pods; port n of each core leads to pod n, and a host is missing in the last one."""
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
                if (pod, n, port) != (4, 1, 2):
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
    site = pods(named)
    before = {f.code for f in check(site.fabric())}
    peers = [dict(site.at(switch))[port] for switch, port in ends]
    site.replug({ends[0]: ends[1], ends[1]: ends[0]})
    (found,) = [f for f in check(site.fabric()) if f.code not in before]
    assert found.code == "swapped-cables"
    assert {(site.key_of[p.guid], p.portnum) for p in found.where} == {*ends, *peers}
