"""An exporter that a test has started."""

from __future__ import annotations

import subprocess

import numpy as np

from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace
from tests.monitor.lab import port_of

FALLS = "link_downed_counter"


def address_of(exporter: subprocess.Popen[str]) -> str:
    """The address that it prints, after lines of progress where its first round takes long."""
    for line in exporter.stderr or ():
        if "http://" in line:
            return line.split()[-1]
    raise AssertionError("the exporter has ended")


def exporter(wire, memory, notice=lambda line: None, **more):
    from softib.monitor.exporter.service import ExporterService

    opened = Opened(wire, "lab", None, lambda: None, memory)
    return ExporterService(opened, port=0, every_s=0.5, pace=Pace(timeout_ps=5 * 10**9), notice=notice, **more)


def take_out(wire, fabric, name):
    """The device has no power: no link, no answer."""
    node = fabric.node_names().index(name)
    for port in np.flatnonzero(fabric.port_node == node).tolist():
        if fabric.port_peer[port] >= 0 and fabric.port_num[port]:
            wire.plane.set_link(port, False, 0)


def fall(fabric, name: str, portnum: int, times: int = 1) -> None:
    """Both ends of the cable count it."""
    port = port_of(fabric, name, portnum)
    for end in (port, int(fabric.port_peer[port])):
        fabric.counters[FALLS][end] += times
