"""All-reduces by aggregation nodes, over trees that the manager wrote by MADs (SHARP)."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.iba.vendor.sharp import QuotaConfig
from softib.scenario.aggregation import aggregation_messages, all_reduces, placements
from softib.scenario.bring_up import bring_up
from softib.sim.agreement import ALL
from softib.sim.messages import Reduction, joined, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.profiles import PROFILES
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from softib.workloads.hosts import hosts_of


@cache
def subnet(radix: int = 8, levels: int = 2):
    """A fat tree of HDR with a node in each switch, brought up with aggregation trees; shared: copy before changing it."""
    fabric = generate("fat-tree", radix=radix, levels=levels, generation="HDR", aggregation_nodes=True)
    bring_up(fabric, config=config_of(read_options("aggregation TRUE\n").options | {"engine": "ftree"}))
    return fabric, end_ports(fabric), hosts_of(fabric).end


def all_reduce(hosts, size, streaming=False, fabric=None, options=None):
    """(messages, outcome, rows of the last messages: the results at hosts)."""
    f, ends, rows = subnet()
    sent = aggregation_messages(fabric or f, ends, Reduction(rows[hosts], size, streaming))
    out = run(fabric or f, sent, options)
    return sent, out, np.flatnonzero(np.isin(sent.dst, rows[hosts]))


@pytest.mark.parametrize("size", [8, 4096])
@pytest.mark.parametrize("streaming", [False, True])
def test_every_host_gets_the_sum_in_which_each_vector_is_once(size, streaming):
    """Conservation: the value of every result is the sum of the hosts' numbers, for every piece."""
    hosts = np.array([0, 1, 5, 6, 17, 30])
    _, out, results = all_reduce(hosts, size, streaming)
    wanted = (subnet()[2][hosts] + 1).sum()
    assert out.done and out.agreement == ALL
    assert (out.values[results] == wanted).all()
    pieces = 1 if streaming else -(-size // 256)
    assert len(results) == pieces * len(hosts)


def test_vectors_count_once_though_packets_come_twice():
    """Damaged packets, NAKs and timeouts: retransmission does not add a vector again."""
    fabric = copy.deepcopy(subnet()[0])
    fabric.port_loss[:, 1] = 2e-5
    hosts = np.arange(32)
    _, out, results = all_reduce(hosts, 20_000, True, fabric, PacketOptions(ack_timeout=6))
    assert out.counters["port_rcv_errors"].sum() > 20
    assert out.done and (out.values[results] == (subnet()[2] + 1).sum()).all()


def test_an_unloaded_tree_takes_the_closed_form():
    """8 octets of one host of each of two leaves: posting, then up three nodes' switches and down, each with a switch traversal in and out,
    a packet's time and reducing; exact to the picosecond."""
    fabric, p = subnet()[0], PROFILES["HDR"]
    _, out, results = all_reduce(np.array([0, 31]), 8)
    octets = 8 + 26
    fs = 40_000  # HDR: 200 Gb/s
    ports = int(fabric.node_nports[fabric.is_switch].max())
    inside = fs // ports
    wire, fast = (octets * fs + 500) // 1000, (octets * inside + 500) // 1000
    cable = between = 0  # lengths are not stated
    assert np.isnan(fabric.cable_length_m).all()
    post = p.adapter_ns * 500 + round(8 * p.inline_ns * 1000)
    switch, reduce = p.switch_ns * 1000, fast + p.reduce_ns * 1000
    up = post + wire + cable + switch + reduce  # host to the node of its leaf; cut-through: one packet's time
    tree = 2 * switch + wire + between + reduce  # out of a node, through its switch, the next switch, into its node
    down = switch + wire + cable + round(octets * 8e3 / p.pcie_gbps) + p.adapter_ns * 500
    # The node at the top takes the second vector after the first, and sends the second result after the first.
    assert sorted(out.arrived_ps[results]) == [up + 2 * tree + down + fast, up + 2 * tree + down + 2 * fast]


def test_streaming_is_near_the_rate_of_a_hosts_link():
    """4 MB by 32 hosts over the whole data path of the switches: above nine tenths of 200 Gb/s into each host."""
    size = 4 << 20
    _, out, results = all_reduce(np.arange(32), size, True)
    assert out.done
    gbps = size * 8e3 / out.arrived_ps[results].max()
    assert 0.9 * 200 < gbps < 200


def test_few_operations_at_a_time_queue():
    """OSTs: with one operation under way 16 operations take 16 round trips; with 128 they overlap."""
    fabric = copy.deepcopy(subnet()[0])
    hosts = np.arange(8)
    alone = all_reduce(hosts, 256)[1].end_ps
    many = all_reduce(hosts, 4096)[1].arrived_ps.max()
    QuotaConfig.osts.set(fabric.sharp_quota, 1)
    one = all_reduce(hosts, 4096, fabric=fabric)[1].arrived_ps.max()
    last = all_reduce(hosts, 256)[1].arrived_ps.max()
    assert one == pytest.approx(16 * last, rel=0.05) and alone < many < one / 4


def together(fabric, groups, size, streaming=False):
    """When the last result of the first of several all-reduces at once arrived, and where each was placed."""
    _, ends, rows = subnet()
    jobs = [Reduction(rows[hosts], size, streaming, job=i) for i, hosts in enumerate(groups)]
    placed = placements(fabric, ends, jobs)
    parts = [aggregation_messages(fabric, ends, job, placed=at) for job, at in zip(jobs, placed, strict=True)]
    sent = parts[0] if len(parts) == 1 else joined(*parts)
    out = run(fabric, sent)
    assert out.done
    return out.arrived_ps[(sent.job == 0) & np.isin(sent.dst, rows[groups[0]])].max(), placed


@pytest.mark.parametrize(("streaming", "size"), [(False, 4096), (True, 200_000)])
def test_jobs_of_one_tree_share_its_quota(streaming, size):
    """Two jobs in the same switches with two operations (buffers of two packets) of a tree take as long as one job that has one: to a few ns, in which their packets meet."""
    fabric = copy.deepcopy(subnet()[0])
    here, there = np.arange(0, 32, 4), np.arange(1, 32, 4)
    QuotaConfig.osts.set(fabric.sharp_quota, 1)
    QuotaConfig.buffers.set(fabric.sharp_quota, 4096)
    half, _ = together(fabric, [here], size, streaming)
    QuotaConfig.osts.set(fabric.sharp_quota, 2)
    QuotaConfig.buffers.set(fabric.sharp_quota, 2 * 4096)
    alone, _ = together(fabric, [here], size, streaming)
    shared, placed = together(fabric, [here, there], size, streaming)
    assert [at.sharers for at in placed] == [2, 2] and placed[0].tree.tree == placed[1].tree.tree
    assert shared == pytest.approx(half, rel=0.01) and shared > 1.9 * alone


def test_jobs_in_different_switches_share_nothing():
    fabric = copy.deepcopy(subnet()[0])
    QuotaConfig.osts.set(fabric.sharp_quota, 2)
    alone, _ = together(fabric, [np.arange(4)], 4096)
    both, placed = together(fabric, [np.arange(4), np.arange(4, 8)], 4096)
    assert [at.sharers for at in placed] == [1, 1] and both == alone


@pytest.mark.parametrize("layer", ["packet", "fluid"])
def test_streams_beyond_the_osts_of_a_tree_wait(layer):
    """A streaming tree with one OST: all-reduces of the same switches go one after another; with two, a third and a fourth go when a place is free. One in other
    switches waits for nobody."""
    from softib.sim import fluid
    from softib.sim.paths import Plane

    fabric, ends, rows = copy.deepcopy(subnet()[0]), *subnet()[1:]
    groups = [np.arange(i, 32, 4) for i in range(4)]
    several = messages([], [], 1, reductions=[Reduction(rows[g], 200_000, True, job=i) for i, g in enumerate(groups)])

    def ends_ps(osts, count):
        QuotaConfig.osts.set(fabric.sharp_quota, osts)
        sent = all_reduces(fabric, ends, replace(several, reductions=several.reductions[:count]), layer == "fluid")
        out = run(fabric, sent) if layer == "packet" else fluid.run(Plane(fabric, aggregates=True), sent, judge=False)
        assert out.done
        begins = [out.arrived_ps[(sent.job == i) & np.isin(sent.src, rows)].min() for i in range(count)]
        return begins, [out.arrived_ps[(sent.job == i) & np.isin(sent.dst, rows)].max() for i in range(count)]

    _, (alone,) = ends_ps(1, 1)
    _, by_one = ends_ps(1, 4)
    assert by_one == pytest.approx([alone, 2 * alone, 3 * alone, 4 * alone], rel=0.05)
    begins, by_two = ends_ps(2, 4)
    assert max(begins[:2]) < 0.2 * alone and min(begins[2:]) > 0.95 * min(by_two[:2])
    assert max(by_two) == pytest.approx(2 * max(by_two[:2]), rel=0.05)
    leaf, other = np.arange(4), np.arange(4, 8)
    of_jobs = lambda *jobs: placements(
        fabric, ends, [Reduction(rows[other if j == 9 else leaf], 8, True, job=j) for j in jobs]
    )
    placed = of_jobs(0, 1, 2, 9)
    assert [at.behind for at in placed] == [(), (), (0,), ()] and [at.sharers for at in placed] == [2, 2, 2, 1]
    rails = of_jobs(0, 0, 0, 1, 1, 2)
    assert [at.behind for at in rails] == [(), (), (), (), (), (0, 1, 2)], "rails of one job go together"
    assert [at.sharers for at in rails] == [4] * 6


def test_each_job_takes_the_tree_with_the_fewest():
    fabric = generate("fat-tree", radix=4, levels=2, generation="HDR", aggregation_nodes=True)
    bring_up(
        fabric, config=config_of(read_options("aggregation TRUE\naggregation_trees 2\n").options | {"engine": "ftree"})
    )
    rows = hosts_of(fabric).end
    placed = placements(fabric, end_ports(fabric), [Reduction(rows, 8, job=i) for i in range(3)])
    assert [at.tree.tree for at in placed] == [0, 1, 0] and [at.sharers for at in placed] == [2, 1, 2]


def test_the_result_is_faster_than_hosts_could_do_it():
    """8 octets by 32 hosts: less than two exchanges between hosts of different leaves (a tree of hosts takes log2 32 = 5 each way)."""

    fabric, _, rows = subnet()
    there = run(fabric, messages([rows[0]], [rows[31]], 8)).arrived_ps[0]
    assert all_reduce(np.arange(32), 8)[1].arrived_ps.max() < 2.5 * there


def test_without_nodes_or_trees_one_line_says_so():
    plain = generate("fat-tree", radix=4, levels=2, generation="HDR")
    bring_up(plain)
    with pytest.raises(InputError, match="no aggregation node"):
        aggregation_messages(plain, end_ports(plain), Reduction(np.array([0, 1]), 8))
    nodes = generate("fat-tree", radix=4, levels=2, generation="HDR", aggregation_nodes=True)
    bring_up(nodes)
    with pytest.raises(InputError, match="no streaming aggregation tree"):
        aggregation_messages(nodes, end_ports(nodes), Reduction(hosts_of(nodes).end[:2], 8, True))
