"""Bandwidth of verbs (perftest) against measurements: one queue pair, and one program that posts one request after another (packet layer)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from bench.validation.data import measured
from bench.validation.row import Row
from bench.validation.runs import plane
from bench.validation.verbs import MACHINES
from softib.fabric.model import Fabric
from softib.iba.smp import PortInfo
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import run
from softib.workloads.parameters import Section

__all__ = ["bandwidth_rows", "write_mib_s"]

KINDS = {
    "ib_write_bw": (Opcode.WRITE, Transport.RC),
    "ib_send_bw": (Opcode.SEND, Transport.RC),
    "ib_send_bw_UD": (Opcode.SEND, Transport.UD),
}
POSTED_BY = {"P3-EDR-UD-b2b": "openmpi-abci-v", "P4-HDR-AzureHBv3": "openmpi-azure-hbv3"}
"""Whose processor time of a send stands for perftest's: hosts with EDR adapters; the very virtual machines. ConnectX-2's own gap between requests is longer than either."""
WINDOW = 128
"""perftest's --tx-depth."""
MIB = 1 << 20


def bandwidth_rows(dataset: str, parameters: Mapping[str, Section]) -> Iterator[Row]:
    """Bandwidths of one dataset: two windows less one, so that the first message's way is not in them."""
    speed, _, mtu = MACHINES[dataset]
    post_ps = round(1000 * parameters[POSTED_BY[dataset]]["send"]) if dataset in POSTED_BY else 0
    for metric, (opcode, transport) in KINDS.items():
        found = measured(dataset, metric)
        if found:
            at = plane(2, speed)
            PortInfo.neighbor_mtu.set(at.fabric.port_info, np.full(at.fabric.sizes.ports, mtu))
        for size, value, nodes in found:
            predicted = _mib_s(at.fabric, size, opcode, transport, post_ps)
            yield Row(dataset, metric, size, nodes, value, predicted, "MiB/s", 0.0)


def write_mib_s(size: int, speed: str) -> float:
    """ib_write_bw between two hosts of a generation."""
    return _mib_s(plane(2, speed).fabric, size, Opcode.WRITE, Transport.RC, 0)


def _mib_s(fabric: Fabric, size: int, opcode: Opcode, transport: Transport, post_ps: int) -> float:
    few = max(min(WINDOW, (256 * MIB) // size), 4)
    one, two = (_last_ps(fabric, n, size, opcode, transport, post_ps) for n in (few, 2 * few))
    return few * size / MIB / ((two - one) / 1e12)


def _last_ps(fabric: Fabric, n: int, size: int, opcode: Opcode, transport: Transport, post_ps: int) -> int:
    posted = messages(
        np.zeros(n, int), 1, size, start_ps=np.arange(n) * post_ps, qp=0, opcode=opcode, transport=transport
    )
    return int(run(fabric, posted).arrived_ps.max())
