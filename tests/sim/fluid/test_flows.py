"""Messages that send on one path at once are one flow of the fluid layer: the times are those of single messages."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid
from softib.sim.fluid import engine, flows
from softib.sim.messages import Messages, messages
from tests.sim.definition import agree, random_messages, star, tree


def crowded(seed: int, n: int = 60) -> Messages:
    """Random sizes, of which some are equal, and times between few pairs, so that up to a dozen messages share a path."""
    rng = np.random.default_rng(seed)
    pair = rng.integers(0, 5, n)
    src, dst = np.array([0, 0, 1, 4, 9])[pair], np.array([15, 5, 5, 0, 15])[pair]
    sizes = np.where(rng.random(n) < 0.5, 1 << 16, rng.integers(1, 1 << 18, n))
    return messages(src, dst, sizes, start_ps=rng.integers(0, 8, n) * 1_500_000, qp=np.arange(n))


@pytest.mark.parametrize("seed", range(4))
def test_a_crowd_on_few_paths_is_what_the_definition_says(seed):
    agree(tree(), crowded(seed))


def alone(first: np.ndarray, channel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each message is a flow."""
    every = np.arange(len(first) - 1)
    return every.astype(np.int32), every


@pytest.mark.parametrize("seed", range(6))
def test_flows_of_many_messages_end_as_single_messages_do(seed, monkeypatch):
    """To a billionth and the rounding of events to picoseconds; doubts are never fewer."""
    m = crowded(seed, 400) if seed % 2 else random_messages(star(), 400, seed, qp=np.arange(400))
    fabric = tree() if seed % 2 else star()
    monkeypatch.setattr(engine, "EXACT", len(m))
    together = fluid.run(fabric, m)
    monkeypatch.setattr(flows, "shared_paths", alone)
    single = fluid.run(fabric, m)
    assert together.work["rate changes"] < single.work["rate changes"] / 2
    apart = np.abs(together.arrived_ps - single.arrived_ps)
    assert (apart <= 1e-9 * single.arrived_ps + 2 * len(m)).all()
    for grade in ("end", "mean", "messages"):
        assert getattr(together.agreement, grade) <= getattr(single.agreement, grade), grade


def test_flows_are_the_same_paths_and_no_others():
    first = np.array([0, 2, 4, 5, 7, 9])
    channel = np.array([1, 2, 2, 1, 1, 1, 2, 1, 3], np.int32)
    flow, row = flows.shared_paths(first, channel)
    assert flow.tolist() == [0, 1, 2, 0, 3] and row.tolist() == [0, 1, 2, 4]


def test_a_short_message_overtakes_a_long_one_on_its_path():
    """Four queue pairs of one host to another: the one of a tenth of the bytes ends first, whatever the order of posting."""
    sizes = np.array([1 << 20, 100_000, 1 << 20, 1 << 19])
    outcome = agree(star(), messages([0] * 4, [1] * 4, sizes, start_ps=[0, 10**6, 0, 0], qp=np.arange(4)))
    assert np.argsort(outcome.arrived_ps).tolist()[:2] == [1, 3]


def test_rates_of_many_flows_come_within_a_thousandth_of_their_times(monkeypatch):
    """4,032 pairs, each host's messages a little after each other, as all-to-alls post them: beside rates of the instant."""
    fabric = generate("fat-tree", m=(8, 8), w=(1, 8), p=(1, 1))
    bring_up(fabric, "ftree")
    host, step = np.repeat(np.arange(64), 63), np.tile(np.arange(1, 64), 64)
    start = step * 100_000 + np.random.default_rng(0).integers(0, 50_000, 64)[host]
    m = messages(host, (host + step) % 64, 1 << 16, qp=np.arange(len(host)), start_ps=start)
    deferred = fluid.run(fabric, m)
    monkeypatch.setattr(engine, "EXACT", len(m))
    exact = fluid.run(fabric, m)
    took = exact.arrived_ps - exact.began_ps
    assert deferred.work["rate changes"] < exact.work["rate changes"] / 4
    assert abs(deferred.end_ps / exact.end_ps - 1) < 0.001
    assert (np.abs(deferred.arrived_ps - exact.arrived_ps) < 0.005 * took).all()


def test_flows_that_end_before_their_new_rates_lose_no_message(monkeypatch):
    """Chains of small and large messages between 240 pairs: a flow enters a round, and its last message ends before the round."""
    rng = np.random.default_rng(1)
    chains, links = 1_000, 4
    src = rng.integers(0, 16, chains).repeat(links)
    dst = (src + rng.integers(1, 16, chains).repeat(links)) % 16
    first = np.cumsum(np.concatenate([[0], np.tile([0, 1, 1, 1], chains)]))
    needs = np.flatnonzero(np.arange(chains * links) % links) - 1
    sizes = np.where(rng.random(chains * links) < 0.8, 64, 1 << 16)
    m = messages(src, dst, sizes, qp=np.arange(len(src)), first=first, needs=needs)
    monkeypatch.setattr(engine, "EXACT", 20)
    deferred = fluid.run(tree(), m)
    assert deferred.done and deferred.work["flows"] == len(m)
    assert (deferred.arrived_ps[needs] <= deferred.began_ps[needs + 1]).all()
