"""The static layer against published figures, a pure-Python walk, and laws."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.errors import InputError, LimitError
from softib.sim import static
from softib.sim import static_network as patterns
from softib.sim.static_network import Network
from tests.sim.trees import three_level, two_level


def walk(network: Network, a: int, b: int) -> list[tuple]:
    """A flow's channels by names, looked up link by link in plain Python."""
    g = network.graph
    row, to = int(network.hosts[a]), int(network.hosts[b])
    path: list[tuple] = [("in", a)]
    s = int(g.end_switch[row])
    for _ in range(64):
        port = int(network.lft[s, g.end_lid[to]])
        if s == g.end_switch[to] and port == g.end_port[to]:
            return [*path, ("out", b)]
        for e in range(g.first[s], g.first[s + 1]):
            if g.out_port[e] == port:
                path.append(("link", e))
                s = int(g.peer[e])
                break
        else:
            return []
    return []


def by_name(network: Network, load: np.ndarray) -> Counter:
    """Non-zero loads by the names of :func:`walk`."""
    kinds = [("link", i) for i in range(network.n_links)]
    kinds += [(k, h) for k in ("in", "out") for h in range(network.n_hosts)]
    return Counter({k: v for k, v in zip(kinds, load.tolist(), strict=True) if v})


def brute(network: Network, src, dst, weight=None) -> tuple[Counter, list[list[tuple]]]:
    paths = [walk(network, int(a), int(b)) for a, b in zip(src, dst, strict=True)]
    load: Counter = Counter()
    for i, path in enumerate(paths):
        for c in path:
            load[c] += 1 if weight is None else weight[i]
    return load, paths


@pytest.mark.parametrize(
    ("leaves", "hosts", "expected", "samples"),
    [(12, 12, 0.707, 400), (18, 18, 0.684, 200), (36, 18, 0.663, 120), (64, 32, 0.650, 60)],
)
def test_effective_bisection_of_full_trees_is_the_published_one(leaves, hosts, expected, samples):
    """Two-level full trees, d-mod-k: figures of shared reference simulation.md, ±.005."""
    network = Network.build(*two_level(leaves, hosts, hosts))
    found = static.effective_bisection(network, samples=samples, seed=1)
    assert found.relative == pytest.approx(expected, abs=0.005)
    assert found.spread / samples**0.5 < 0.002  # the mean is known better than the tolerance
    assert found.unrouted == 0


@pytest.mark.parametrize(("leaves", "hosts", "spines"), [(2, 3, 3), (4, 3, 2), (3, 5, 7), (5, 1, 1)])
def test_every_pattern_agrees_with_a_walk_in_plain_python(leaves, hosts, spines):
    network = Network.build(*two_level(leaves, hosts, spines))
    n = network.n_hosts
    shifts = static.all_shifts(network)
    total: Counter = Counter()
    for k in range(1, n):
        src, dst = patterns.shift(np.arange(n), k)
        expected, paths = brute(network, src, dst)
        assert by_name(network, shifts.load[k - 1]) == expected
        assert shifts.relative[k - 1] == pytest.approx(np.mean([1 / max(expected[c] for c in p) for p in paths]))
        total += expected
    assert by_name(network, static.all_to_all(network).load) == total  # all shifts together are the all-to-all
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, n, 40), rng.integers(0, n, 40)
    src, dst = src[src != dst], dst[src != dst]
    size = rng.integers(1, 1000, len(src)).astype(float)
    found = static.matrix_loads(network, (src, dst, size))
    assert by_name(network, found.load) == brute(network, src, dst, size.tolist())[0]


def test_flow_rates_are_the_smallest_share_of_links_of_unequal_rate():
    graph, lft = two_level(3, 4, 2)
    rng = np.random.default_rng(5)
    link, host = rng.choice([25.0, 100.0, 200.0], len(graph.peer)), rng.choice([50.0, 100.0], len(graph.end_lid))
    network = Network.build(graph, lft, link_gbps=link, host_gbps=host)
    src, dst = patterns.bisection_pairs(np.arange(12), rng)
    expected, paths = brute(network, src, dst)
    host_rate = host[network.hosts]
    rate = {("link", e): link[e] for e in range(len(link))}
    rate |= {(k, h): host_rate[h] for k in ("in", "out") for h in range(12)}
    shares, _ = static.flow_rates(network, src, dst)
    assert shares == pytest.approx([min(rate[c] / expected[c] for c in p) for p in paths])
    best = np.minimum(host_rate[src], host_rate[dst])
    one = static.effective_bisection(network, samples=1, seed=9)
    src, dst = patterns.bisection_pairs(np.arange(12), np.random.default_rng(9))
    shares, _ = static.flow_rates(network, src, dst)
    assert one.relative == pytest.approx(np.mean(shares / np.minimum(host_rate[src], host_rate[dst])))
    assert one.gbps == pytest.approx(shares.sum() / 2)
    assert (best > 0).all()


def test_a_full_tree_carries_every_shift_of_its_own_order_without_sharing():
    """d-mod-k on a full tree with hosts numbered leaf by leaf: shift permutations are free of contention (Zahavi 2012)."""
    shifts = static.all_shifts(Network.build(*two_level(6, 6, 6)))
    assert shifts.load.max() == 1
    assert shifts.relative == pytest.approx(1.0)


def test_hosts_in_another_order_share_links():
    network = Network.build(*two_level(6, 6, 6))
    order = np.random.default_rng(0).permutation(36)
    assert static.all_shifts(network, order).load.max() > 1


def test_ideal_times_follow_from_the_busiest_link():
    # 2 leaves × 4 hosts, one spine: 4 hosts of a leaf share one uplink.
    network = Network.build(*two_level(2, 4, 1), link_gbps=100.0, host_gbps=100.0)
    # All-to-all of 1 MB: 4 × 4 flows over the uplink, 16 MB at 12.5 GB/s = 1.28 ms.
    assert static.all_to_all_time_ps(network, 10**6) == 1_280_000_000
    # Ring: one flow crosses each way, 1/8 of 8 MB over 100 Gb/s = 80 us.
    assert static.ring_step_ps(network, 8 * 10**6) == 80_000_000
    # Every second host first: 8 hops of the ring, 4 of which leave each leaf.
    assert static.ring_step_ps(network, 8 * 10**6, order=[0, 4, 1, 5, 2, 6, 3, 7]) == 4 * 80_000_000


def test_rings_of_rails_do_not_cross():
    src, dst = patterns.ring(np.arange(8), np.arange(8) % 2)
    assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == sorted(
        [(0, 2), (2, 4), (4, 6), (6, 0), (1, 3), (3, 5), (5, 7), (7, 1)]
    )


def test_incast_meets_at_the_last_link():
    network = Network.build(*two_level(4, 4, 4), link_gbps=100.0, host_gbps=100.0)
    src, dst = patterns.incast(np.arange(16), 5, 10, np.random.default_rng(0))
    assert 5 not in src
    assert len(set(src.tolist())) == 10
    rates, worst = static.flow_rates(network, src, dst)
    assert rates == pytest.approx(10.0)
    assert set(worst.tolist()) == {network.n_links + 16 + 5}
    with pytest.raises(InputError, match="1 to 15"):
        patterns.incast(np.arange(16), 5, 16, np.random.default_rng(0))


def test_flows_without_a_route_are_counted_and_load_nothing():
    graph, lft = two_level(2, 2, 1)
    lft[2, 1] = 255  # the spine forgets host 0
    lft[0, 4] = graph.out_port[0]
    lft[2, 4] = 1  # and sends host 3 back to leaf 0: a loop
    network = Network.build(graph, lft)
    found = static.all_to_all(network)
    assert found.unrouted == 4
    expected, _ = brute(network, *np.nonzero(~np.eye(4, dtype=bool)))
    assert by_name(network, found.load) == expected
    rates, worst = static.flow_rates(network, [2], [0])
    assert rates[0] == 0
    assert worst[0] == -1


@pytest.mark.parametrize("gbps", [1.0, 0.0])
def test_a_host_that_its_own_switch_forgets_still_sends(gbps):
    graph, lft = two_level(2, 2, 1)
    lft[0, 1] = 255  # leaf 0 forgets host 0, which nobody reaches then
    network = Network.build(graph, lft, host_gbps=gbps)
    found = static.all_to_all(network)
    assert found.unrouted == 3
    expected, _ = brute(network, *np.nonzero(~np.eye(4, dtype=bool)))
    assert by_name(network, found.load) == expected


def test_paths_of_more_than_63_hops_are_walked():
    """A line of 100 switches: LFTs know no limit of hops, and the proof says that every pair arrives."""
    from softib.routing.engine import route
    from softib.routing.proof.verify import verify
    from tests.routing.fabrics import wire

    n = 100
    graph = wire(n, [(i, 1, i + 1, 2) for i in range(n - 1)], [(i, 3) for i in range(n)])
    lft = route(graph, "minhop").lft
    assert verify(graph, lft).ok
    network = Network.build(graph, lft)
    found = static.all_to_all(network)
    assert found.unrouted == 0
    # The link behind switch k carries all flows between the k + 1 hosts on one side and the rest.
    middle = np.sort(found.load[: network.n_links])[-2:]
    assert middle.tolist() == [50 * 50, 50 * 50]
    assert len(network.path(0, n - 1)) == n + 1


def test_a_link_of_no_known_rate_has_no_time():
    network = Network.build(*two_level(2, 2, 1), link_gbps=0.0, host_gbps=100.0)
    with pytest.raises(InputError, match="4 channel"):
        static.all_to_all_time_ps(network, 1)
    src, dst = patterns.shift(np.arange(2), 1)  # within the first leaf every link has one
    assert static.flow_time_ps(network, static.loads(network, src, dst), 1250) == 100_000


def test_loads_that_no_memory_holds_are_refused_in_one_line():
    network = Network.build(*two_level(64, 32, 32))
    with pytest.raises(LimitError, match="sample at most"):
        static.all_shifts(network, shifts=np.arange(1, 300_000))


def test_same_seed_same_bits():
    network = Network.build(*two_level(6, 6, 6))
    a, b, c = (static.effective_bisection(network, 5, seed) for seed in (4, 4, 5))
    assert a.samples.tobytes() == b.samples.tobytes()
    assert a.samples.tobytes() != c.samples.tobytes()


@pytest.mark.parametrize(
    "demand",
    [
        np.ones((3, 3)),
        (np.array([0]), np.array([99]), np.array([1.0])),
        (np.array([0]), np.array([1]), np.array([-1.0])),
    ],
)
def test_a_wrong_matrix_is_one_line(demand):
    with pytest.raises(InputError, match="traffic matrix"):
        static.matrix_loads(Network.build(*two_level(2, 2, 2)), demand)


def test_three_levels_agree_with_a_walk_in_plain_python():
    network = Network.build(*three_level(4))
    n = network.n_hosts
    assert n == 16
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    expected, paths = brute(network, src, dst)
    assert all(paths)
    assert by_name(network, static.all_to_all(network).load) == expected
    assert static.all_shifts(network).load.sum(axis=0).tolist() == static.all_to_all(network).load.tolist()
