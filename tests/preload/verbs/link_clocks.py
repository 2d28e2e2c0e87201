"""The wire's time in C on a fabric, for tests: paths with their clocks."""

from __future__ import annotations

import ctypes as ct

from softib.agents.plane import AgentPlane
from softib.live.verbs.traffic import Traffic
from softib.scenario.bring_up import bring_up

from .fabric_library import SharedFabricInC, egress

SECOND = 10**9
START = 5 * SECOND


class TimedPath(ct.Structure):
    _fields_ = [("steps", ct.c_void_p), ("links", ct.c_uint16), ("latency_ns", ct.c_uint64)]


class Clocks:
    """A fabric's ways, in time. Close it."""

    def __init__(self, folder, fabric, bring=True):
        if bring:
            bring_up(fabric)
        self.shared = SharedFabricInC(folder, fabric)
        self.fabric, self.c = self.shared.fabric, self.shared.library
        self.plane = AgentPlane(self.fabric)
        self.traffic = Traffic(folder / "traffic", self.plane.tables, 4)
        self.c.sv_timed_path_pass.restype = ct.c_uint64
        self.c.sv_timed_path_pass.argtypes = [ct.c_void_p, ct.c_uint64, ct.c_uint64]
        self.c.sv_link_gbps.restype = ct.c_double
        assert self.c.probe_link_clocks(self.shared.memory, str(folder / "traffic").encode()) == 0

    def timed(self, src, dst, sl=0):
        f = self.fabric
        path = self.shared.walk(port_of(f, src), f.lid[port_of(f, dst)])
        rows, timed = egress(path), TimedPath()
        assert self.c.sv_timed_path_lay(ct.byref(timed), (ct.c_uint32 * len(rows))(*rows), len(rows), sl)
        return timed

    def send(self, timed, octets, at=START):
        """When the last of ``octets`` is through."""
        return self.c.sv_timed_path_pass(ct.byref(timed), at, octets)


def port_of(f, host):
    node = f.cas[host]
    return int(f.node_base[node] + 1)
