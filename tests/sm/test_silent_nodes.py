"""A node that does not answer costs the first sweep its timeouts, and later sweeps next to nothing; it is asked in each of them."""

from __future__ import annotations

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.default_port import default_port
from softib.fabric.topologies.registry import generate
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager

MS = 10**9


def sweep(sm: SubnetManager, plane: AgentPlane, port: int, now_ps: int, silent: int) -> int:
    """One sweep in which answers of node ``silent`` are lost; returns the time at its end."""
    sm.request_sweep()
    inbox = None
    while True:
        outbox, deadline_ps = sm.step(now_ps, inbox)
        inbox = None
        if len(outbox):
            answers = plane.send(outbox, port, now_ps)
            inbox = answers[np.array([end(plane.fabric, port, mad) != silent for mad in answers.mad], bool)]
        elif sm.settled:
            return now_ps
        else:
            now_ps = max(now_ps, deadline_ps)


def end(f, port: int, mad: np.ndarray) -> int:
    node = int(f.port_node[port])
    for i in range(1, int(mad[7]) + 1):
        node = int(f.port_node[f.port_peer[f.port(node, int(mad[128 + i]))]])
    return node


def test_later_sweeps_do_not_wait_for_a_silent_node():
    fabric = generate("fat-tree", radix=4, levels=2)
    silent, port = int(fabric.cas[5]), default_port(fabric)
    plane, sm = AgentPlane(fabric), SubnetManager(SmConfig(window=64, chunk=64))
    now_ps, took = 0, []
    for _ in range(5):
        before = now_ps
        now_ps = sweep(sm, plane, port, now_ps, silent)
        took.append(now_ps - before)
        assert len(sm.report.silent_ports) == 1 and sm.report.nodes == fabric.sizes.nodes - 1
    assert took[0] == took[4] == 800 * MS  # four tries of 200 ms; each fourth sweep is as patient again
    assert took[1:4] == [20 * MS] * 3
    now_ps = sweep(sm, plane, port, now_ps, -1)
    assert sm.report.nodes == fabric.sizes.nodes and not sm.report.silent_ports, (
        "asked in every sweep: it is back at once"
    )
