"""Computations between messages: a processor does one at a time, and every layer says the same."""

from __future__ import annotations

import copy
import importlib

import numpy as np
import pytest

from softib.errors import InputError
from softib.sim.messages import Opcode, messages
from tests.sim.packet.fabrics import tree

US = 1_000_000
LAYERS = ("static", "fluid", "packet")


def run(layer, sent):
    return importlib.import_module(f"softib.sim.{layer}").run(copy.deepcopy(tree(4, 2)), sent)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_message_waits_for_a_computation_and_the_next_for_the_message(layer):
    """compute 5 us at 0, send to 4, compute 7 us there, send back: the times are those of the two messages and 12 us."""
    c, w = Opcode.COMPUTE, Opcode.WRITE
    both = messages(
        [0, 0, 4, 4],
        [0, 4, 4, 0],
        [1, 8, 1, 8],
        opcode=[c, w, c, w],
        qp=[0, 1, 2, 3],
        delay_ps=[5 * US, 0, 7 * US, 0],
        first=[0, 0, 1, 2, 3],
        needs=[0, 1, 2],
    )
    alone = run(layer, messages([0], [4], 8))
    out = run(layer, both)
    once = int(alone.arrived_ps[0])
    assert out.done and out.began_ps.tolist() == [0, 5 * US, 5 * US + once, 12 * US + once]
    assert out.arrived_ps.tolist() == [5 * US, 5 * US + once, 12 * US + once, 12 * US + 2 * once]
    sent = out.counters["port_xmit_pkts"].sum()
    assert sent == 2 * alone.counters["port_xmit_pkts"].sum(), "a computation puts nothing on a link"


@pytest.mark.parametrize("layer", ["fluid", "packet"])
def test_a_processor_computes_one_thing_at_a_time(layer):
    """Three computations of one processor queue in the order in which they can begin; another processor does not wait."""
    jobs = messages(
        [0] * 4,
        [0] * 4,
        1,
        opcode=Opcode.COMPUTE,
        qp=[0, 0, 0, 1],
        start_ps=[2 * US, 0, US, 0],
        delay_ps=[US, 3 * US, US, 9 * US],
    )
    out = run(layer, jobs)
    assert out.began_ps.tolist() == [4 * US, 0, 3 * US, 0]
    assert out.completed_ps.tolist() == [5 * US, 3 * US, 4 * US, 9 * US]


def test_what_cannot_be():
    for columns, wrong in (
        ({"dst": [0, 1]}, "two ends"),
        ({"dst": 0, "opcode": [Opcode.COMPUTE, Opcode.WRITE]}, "processor"),
    ):
        given = {"src": [0, 0], "size": 1, "qp": 0, "opcode": Opcode.COMPUTE} | columns
        with pytest.raises(InputError, match=wrong):
            messages(given.pop("src"), given.pop("dst"), given.pop("size"), **given).check(4)


@pytest.mark.parametrize("seed", range(3))
def test_fluid_and_packets_agree_on_a_chain(seed):
    """Random chains of computing and sending, one at a time: both clocks end within 1 % (nothing shares a link)."""
    rng = np.random.default_rng(seed)
    n, at, rows = 60, 0, []
    for _ in range(n):
        if rng.random() < 0.5:
            rows.append((at, at, 1, Opcode.COMPUTE, int(rng.integers(1, 20)) * US))
        else:
            to = int((at + rng.integers(1, 8)) % 8)
            rows.append((at, to, int(rng.integers(1, 60_000)), Opcode.SEND, 0))
            at = to
    src, dst, size, opcode, delay = (np.array(column) for column in zip(*rows, strict=True))
    sent = messages(
        src,
        dst,
        size,
        opcode=opcode,
        qp=np.arange(n),
        delay_ps=delay,
        first=np.concatenate([[0], np.arange(n)]),
        needs=np.arange(n - 1),
    )
    fluid, packet = run("fluid", sent), run("packet", sent)
    assert fluid.done and packet.done
    assert fluid.end_ps == pytest.approx(packet.end_ps, rel=0.01)
