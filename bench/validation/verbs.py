"""Verbs (perftest) against measurements: the device profiles of the simulator, without load."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.validation.data import measured
from bench.validation.row import Row
from bench.validation.runs import plane
from softib.iba.smp import PortInfo
from softib.sim.fluid import run
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet.profiles import profile_of

__all__ = ["verbs_rows"]

MACHINES = {
    "P1-QDR-CX2": ("QDR", profile_of("QDR").program_ns, 4),
    "P3-EDR-UD-b2b": ("EDR", profile_of("EDR").program_ns, 5),
    "P4-HDR-AzureHBv3": ("HDR", 860, 5),
}
"""Generation, ns of the program and its machine, code of the path MTU (IBA 14.2.5.6: 4 is 2048, 5 is 4096)."""
KINDS = {
    "ib_write_lat": (Opcode.WRITE, Transport.RC), "ib_read_lat": (Opcode.READ, Transport.RC), "ib_send_lat_UD": (Opcode.SEND, Transport.UD),
    "ib_send_lat": (Opcode.SEND, Transport.RC),
}  # fmt: skip
BAR = 0.15


def verbs_rows(dataset: str) -> Iterator[Row]:
    """Latencies of one dataset."""
    speed, program_ns, mtu = MACHINES[dataset]
    for metric, (opcode, transport) in KINDS.items():
        found = measured(dataset, metric)
        if found:
            at = plane(2, speed)
            PortInfo.neighbor_mtu.set(at.fabric.port_info, np.full(at.fabric.sizes.ports, mtu))
        for size, value, nodes in found:
            out = run(at, messages([0], [1], size, opcode=opcode, transport=transport), judge=False)
            end = out.completed_ps if opcode == Opcode.READ else out.arrived_ps
            yield Row(dataset, metric, size, nodes, value, (int(end[0]) + program_ns * 1000) / 1e6, "us", BAR)
