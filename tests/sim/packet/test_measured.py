"""Calibration: device profiles against published measurements of two adapters (``measured.csv``; docs/simulate.md says what is fitted)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from softib.iba.smp import PortInfo
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.profiles import profile_of
from tests.sim.packet.fabrics import star

MEASURED = Path(__file__).resolve().parents[4] / "shared" / "reference" / "measured.csv"
MACHINES = {
    "P1-QDR-CX2": ("QDR", {}, profile_of("QDR").program_ns, 2048),
    "P3-EDR-UD-b2b": ("EDR", {}, profile_of("EDR").program_ns, 4096),
    "P4-HDR-AzureHBv3": ("HDR", {}, 860, 4096),  # a virtual machine
}
"""Dataset → generation, other figures, ns of the program and its machine, path MTU."""
LATENCIES = {
    ("P1-QDR-CX2", "ib_write_lat"): (Opcode.WRITE, Transport.RC), ("P1-QDR-CX2", "ib_read_lat"): (Opcode.READ, Transport.RC),
    ("P3-EDR-UD-b2b", "ib_send_lat_UD"): (Opcode.SEND, Transport.UD), ("P4-HDR-AzureHBv3", "ib_send_lat"): (Opcode.SEND, Transport.RC),
}  # fmt: skip
PLATEAUS = {
    ("P1-QDR-CX2", "ib_write_bw"): (Opcode.WRITE, Transport.RC, {}),
    ("P3-EDR-UD-b2b", "ib_send_bw_UD"): (Opcode.SEND, Transport.UD, {"pcie_gbps": 80.5}),  # that machine's own limit
    ("P4-HDR-AzureHBv3", "ib_send_bw"): (Opcode.SEND, Transport.RC, {}),
}


def rows(dataset: str, metric: str) -> list[tuple[int, float]]:
    """(size, value) of a dataset."""
    if not MEASURED.is_file():
        pytest.skip(f"{MEASURED} is not there")
    with MEASURED.open() as file:
        return [
            (int(r["size_bytes"]), float(r["value"]))
            for r in csv.DictReader(file)
            if (r["dataset"], r["metric"]) == (dataset, metric)
        ]


def pair(speed: str, mtu: int):
    fabric = star(2, speed)
    PortInfo.neighbor_mtu.set(fabric.port_info, {2048: 4, 4096: 5}[mtu])
    return fabric


@pytest.mark.parametrize(("dataset", "metric"), LATENCIES)
def test_latencies(dataset, metric):
    """Half round trips: at most 5 % off in the mean, 10 % at worst."""
    speed, figures, program_ns, mtu = MACHINES[dataset]
    opcode, transport = LATENCIES[dataset, metric]
    off = []
    for size, wanted_us in rows(dataset, metric):
        out = run(
            pair(speed, mtu),
            messages([0], [1], size, opcode=opcode, transport=transport),
            PacketOptions(profile=figures),
        )
        end = out.completed_ps if opcode == Opcode.READ else out.arrived_ps
        off.append(((end[0] + program_ns * 1000) / 1e6 - wanted_us) / wanted_us)
    assert np.abs(off).mean() <= 0.05
    assert np.abs(off).max() <= 0.10


@pytest.mark.parametrize(("dataset", "metric"), PLATEAUS)
def test_plateaus(dataset, metric):
    """What many large messages of one queue pair reach: within 2 %."""
    speed, _, _, mtu = MACHINES[dataset]
    opcode, transport, figures = PLATEAUS[dataset, metric]
    size, wanted = rows(dataset, metric)[-1]
    n = max((8 << 20) // size, 100)
    sent = messages(np.zeros(n, int), 1, size, qp=0, opcode=opcode, transport=transport)
    out = run(pair(speed, mtu), sent, PacketOptions(profile=figures))
    mib_s = (n - 1) * size / 2**20 / ((out.arrived_ps[-1] - out.arrived_ps[0]) / 1e12)
    assert mib_s == pytest.approx(wanted, rel=0.02)


def test_message_rates():
    """Small messages of one queue pair on QDR: 5.47 M/s measured."""
    n = 3000
    out = run(pair("QDR", 2048), messages(np.zeros(n, int), 1, 2, qp=0))
    assert (n - 1) / ((out.arrived_ps[-1] - out.arrived_ps[0]) / 1e12) == pytest.approx(5.47e6, rel=0.02)
