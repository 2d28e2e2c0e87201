"""The effect of a failed part of a design: the figures must be those of the subnet manager after the same fault."""

from __future__ import annotations

import numpy as np
import pytest

from softib.analysis import planning
from softib.analysis.endpoints import endpoints_of
from softib.analysis.prediction import network_of
from softib.plan.designs import Demand, candidates

DEMANDS = [Demand(31, 8), Demand(70, radix=36), Demand(100, 2, radix=16, oversubscription=2), Demand(12, 2, radix=8)]


@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_tables_without_a_part_are_those_that_the_manager_writes(demand):
    for shape in candidates(demand).designs:
        fabric = shape.fabric
        level = fabric.source.generator["node_level"]
        up = planning._brought_up(fabric)
        ports = planning._port(up.fabric, up.graph, endpoints_of(up.fabric, up.graph).row)
        failures = {f.part: f for f in planning._failures(up, level, ports, 0)}
        names, faults = up.fabric.node_names(), up.plane.faults
        for part in sorted(failures, key=lambda p: not p.startswith("cable")):  # the manager remembers roots
            name = part.split(" ", 1)[1]
            node, _, number = name.rstrip("]").partition("[")
            port = int(up.fabric.node_base[names.index(node)]) + int(number or 0)
            if number:
                faults.cut(port)
            else:
                faults.power(names.index(node), False)
            lost, effective = len(ports), 0.0
            if faults.is_up(up.port):
                up.sweep()
                graph = up.graph
                reached = graph.end_is_compute & ~np.isin(graph.end_node, up.unreached)
                rows = {int(planning._port(up.fabric, graph, end)): end for end in np.flatnonzero(reached)}
                ends = np.array([rows[port] for port in ports.tolist() if port in rows])  # pairs depend on the order
                network = network_of(up.fabric, graph, up.routing.lft, ends)
                lost = len(ports) - network.n_hosts
                effective = planning._effective(network, 0)
            if number:
                faults.mend(port)
            else:
                faults.power(names.index(node), True)
            assert (failures[part].lost, failures[part].effective) == (lost, pytest.approx(effective)), part
