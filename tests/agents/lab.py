"""What tests of this package share."""

from __future__ import annotations

import re
import subprocess

import numpy as np

from softib.fabric import counters
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba import notice, perf_optional
from softib.iba.smp import PortInfo, SwitchInfo
from tests.agents.client_plane import ClientPlane

from .smps import SET, ask

GROUPS = {
    "detail_counters": counters.DETAIL_COUNTERS,
    "vl_counters": counters.VL_COUNTERS,
    "sl_counters": counters.SL_COUNTERS,
    "lane_counters": counters.LANE_COUNTERS,
}

OPTIONAL = [
    perf_optional.PortRcvErrorDetails,
    perf_optional.PortXmitDiscardDetails,
    perf_optional.PortOpRcvCounters,
    perf_optional.PortFlowCtlCounters,
    perf_optional.PortVLOpPackets,
    perf_optional.PortVLOpData,
    perf_optional.PortVLXmitFlowCtlUpdateErrors,
    perf_optional.PortVLXmitWaitCounters,
    perf_optional.PortExtendedSpeedsCounters,
    perf_optional.SwPortVLCongestion,
    perf_optional.PortRcvConCtrl,
    perf_optional.PortSLRcvFECN,
    perf_optional.PortSLRcvBECN,
    perf_optional.PortXmitConCtrl,
    perf_optional.PortVLXmitTimeCong,
    perf_optional.PortXmitDataSL,
    perf_optional.PortRcvDataSL,
]


def counters_of(struct):
    """(field, element) of every counter of an attribute, in wire order."""
    named = {n for d in GROUPS.values() for n in d.names}
    return [(x, i) for x in struct.named() if x.name in named for i in range(x.count)]


def place(f, name):
    """The column that holds counter ``name`` as [ports, elements]."""
    group = next(g for g, d in GROUPS.items() if name in d.names)
    return getattr(f, group)[name].reshape(f.sizes.ports, -1)


def walk(f, port, path):
    """Independent oracle: follow cables by (node, portnum) lookups in the cable list."""
    cable = {int(a): int(b) for a, b in f.cable_port if b >= 0}
    cable.update({b: a for a, b in cable.items()})
    ports = {(int(f.port_node[p]), int(f.port_num[p])): p for p in range(f.sizes.ports)}
    ingress = [int(f.port_num[port])]
    for i, out in enumerate(path):
        node = int(f.port_node[port])
        if f.node_type[node] == 1 and (i or out != f.port_num[port]):
            return None, ingress
        egress = ports.get((node, out)) if out else None
        if egress is None or egress not in cable:
            return None, ingress
        port = cable[egress]
        ingress.append(int(f.port_num[port]))
    return port, ingress


def program(f, plane, s, h, activate=True):
    """LIDs and LFTs of a line by directed SMPs from the first host; host i has LID 11 + i, switch i LID 1 + i."""
    sm = int(f.port(h[0], 1))
    n = len(s)
    for i in range(n):
        to = [1] + [7] * i
        lft = np.full(64, 255, np.uint8)
        for j in range(n):
            lft[1 + j] = 0 if i == j else 7 if j > i else 8
            lft[11 + j] = 1 if i == j else 7 if j > i else 8
        assert ask(plane, sm, method=SET, attr=0x19, path=to, data=lft)[0] == 0
        info = ask(plane, sm, attr=0x12, path=to)[1][:64]
        SwitchInfo.linear_fdb_top.set(info, 30)
        assert ask(plane, sm, method=SET, attr=0x12, path=to, data=info)[0] == 0
        own = ask(plane, sm, attr=0x15, path=to)[1][:64]
        PortInfo.lid.set(own, 1 + i)
        PortInfo.port_state.set(own, 0)
        assert ask(plane, sm, method=SET, attr=0x15, path=to, data=own)[0] == 0
        for where, number, lid in ((to, 1, 0), (to, 7, 0), (to, 8, 0), ([*to, 1] if i or n else to, 1, 11 + i)):
            info = ask(plane, sm, attr=0x15, mod=number, path=where)[1][:64]
            if PortInfo.port_state.get(info) == 1:
                continue
            for state in (3, 4) if activate else (0,):
                PortInfo.lid.set(info, lid)
                PortInfo.port_state.set(info, state)
                PortInfo.port_phys_state.set(info, 0)
                assert ask(plane, sm, method=SET, attr=0x15, mod=number, path=where, data=info)[0] == 0
    return sm


S = 10**12


def powered(generation="QDR"):
    f = generate("fat-tree", radix=4, levels=2, generation=generation)
    power_on(f)
    SwitchInfo.port_state_change.set(f.switch_info, 0)  # as a manager leaves it; only its first rise is a trap
    return f, ClientPlane(f)


def cable(f, a="leaf-1", b="spine-1"):
    """Both ports of the cable between two nodes."""
    names = f.node_names()
    rows = [p for p in f.ports_of(names.index(a), port0=False) if f.port_peer[p] >= 0]
    port = next(p for p in rows if names[f.port_node[f.port_peer[p]]].split(" ")[0] == b)
    return port, int(f.port_peer[port])


def sent_where_it_can(plane):
    out = []
    for n in plane.take_notices():
        found = plane.trap(n)
        if found:
            got = notice.Notice.unpack(found[0].mad[0, 64:128].tobytes())
            struct = notice.DETAILS_BY_TRAP[n.trap]
            out.append(
                (n.trap, got["issuer_lid"], got["type"], struct.unpack(bytes(got["data_details"])[: struct.size]))
            )
    return out


def read(plane, sm, struct, number, **kw):
    data = struct.zeros()
    struct.port_select.set(data, number)
    for name, value in kw.pop("fields", {}).items():
        struct.fields[name].set(data, value)
    status, said = ask(plane, sm, klass=4, attr=struct.attr, dlid=1, data=data, **kw)
    return status, struct.unpack(said[: struct.size].tobytes())


def tool(env, *command, check=True):
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert not check or run.returncode == 0, (command, run.stdout, run.stderr)
    return run.stdout


def fields(text):
    return dict(re.findall(r"^(\w+):\.+(.*)$", text, re.M))
