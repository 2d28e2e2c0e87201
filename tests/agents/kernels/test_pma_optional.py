"""PerfMgt: the optional attributes, against the columns that they show."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba import perf_optional
from softib.iba.notice import ClassPortInfo
from softib.iba.perf import PortCounters
from softib.scenario.bring_up import bring_up
from tests.agents.lab import GROUPS, OPTIONAL, counters_of, place, program, read
from tests.agents.smps import GET, SET, ask, line

ID = lambda s: s.__name__


@pytest.fixture
def lab():
    f, s, h = line(2)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    return f, plane, sm, s


def values(got, struct):
    return [got[x.name][i] if x.count > 1 else got[x.name] for x, i in counters_of(struct)]


def test_the_optional_attributes_are_all_there():
    assert sorted(s.attr for s in OPTIONAL) == [*range(0x15, 0x1D), 0x1F, *range(0x30, 0x38)]
    named = [x.name for s in OPTIONAL for x in {x.name: x for x, _ in counters_of(s)}.values()]
    assert sorted(named) == sorted(n for d in GROUPS.values() for n in d.names), "each counter in one attribute"


@pytest.mark.parametrize("struct", OPTIONAL, ids=ID)
def test_each_counter_is_where_it_belongs_and_saturates(lab, struct):
    f, plane, sm, s = lab
    row = int(f.port(s[0], 7))
    for n, (x, i) in enumerate(counters_of(struct)):
        place(f, x.name)[row, i] = n % x.mask + 1
    _, got = read(plane, sm, struct, 7)
    assert values(got, struct) == [n % x.mask + 1 for n, (x, _) in enumerate(counters_of(struct))]
    assert values(read(plane, sm, struct, 6)[1], struct) == [0] * len(counters_of(struct))
    for x, i in counters_of(struct):
        place(f, x.name)[row, i] = 2**40 + 3
    assert values(read(plane, sm, struct, 7)[1], struct) == [x.mask for x, _ in counters_of(struct)]


@pytest.mark.parametrize("struct", OPTIONAL, ids=ID)
def test_a_set_clears_the_selected_ones(lab, struct):
    f, plane, sm, s = lab
    row = int(f.port(s[0], 7))
    for n, (x, i) in enumerate(counters_of(struct)):
        for y, j in counters_of(struct):
            place(f, y.name)[row, j] = 1
        assert read(plane, sm, struct, 7, method=SET, fields={"counter_select": 1 << n})[0] == 0
        zero = [(y.name, j) for y, j in counters_of(struct) if place(f, y.name)[row, j] == 0]
        assert zero == [(x.name, i)]


@pytest.mark.parametrize("struct", OPTIONAL, ids=ID)
def test_all_ports_and_ports_that_do_not_exist(lab, struct):
    f, plane, sm, s = lab
    x, i = counters_of(struct)[-1]  # of counters by SL the first moves with the questions
    place(f, x.name)[int(f.port(s[0], 1)) : int(f.port(s[0], 3)) + 1, i] = 1
    place(f, x.name)[int(f.port(s[1], 1)), i] = 1
    assert values(read(plane, sm, struct, 255)[1], struct)[-1] == 3
    assert read(plane, sm, struct, 9)[0] == 0x1C and read(plane, sm, struct, 254)[0] == 0x1C


def test_ca_ports_have_no_switch_counters(lab):
    f, plane, sm, _s = lab
    for struct in OPTIONAL:
        data = struct.zeros()
        struct.port_select.set(data, 1)
        status, _ = ask(plane, sm, klass=4, attr=struct.attr, dlid=int(f.lid[sm]), data=data)
        assert status == (0x0C if struct is perf_optional.SwPortVLCongestion else 0), struct


@pytest.mark.parametrize(
    "struct", [perf_optional.PortOpRcvCounters, perf_optional.PortVLOpPackets, perf_optional.PortVLOpData], ids=ID
)
def test_the_counted_opcode_is_kept_by_port_and_attribute(lab, struct):
    f, plane, sm, s = lab
    assert read(plane, sm, struct, 7, method=SET, fields={"op_code": 0x64})[0] == 0
    assert read(plane, sm, struct, 7, fields={"op_code": 3})[1]["op_code"] == 0x64
    assert read(plane, sm, struct, 6)[1]["op_code"] == 0
    assert np.count_nonzero(f.op_code) == 1 and f.op_code[int(f.port(s[0], 7))].max() == 0x64


@pytest.mark.parametrize("klass", [4, 0x21])
def test_class_port_info_keeps_where_traps_go(lab, klass):
    _f, plane, sm, _s = lab
    how = {"klass": klass, "attr": 1, "dlid": 1, "version": 2 if klass == 0x21 else 1}
    first = ClassPortInfo.unpack(ask(plane, sm, **how)[1][:72].tobytes())
    assert first["class_version"] == how["version"] and first["trap_lid"] == 0
    told = {"trap_gid": [0xFE80 << 48, 77], "trap_lid": 9, "trap_qp": 1, "trap_qkey": 0x80010000, "trap_pkey": 0xFFFF}
    status, said = ask(plane, sm, method=SET, data=ClassPortInfo.pack(**told, redirect_lid=5, cap_mask=1), **how)
    got = ClassPortInfo.unpack(said[:72].tobytes())
    assert status == 0 and all(got[k] == v for k, v in told.items())
    assert got["redirect_lid"] == 0 and got["cap_mask"] == first["cap_mask"], "what it can do is not settable"
    assert ClassPortInfo.unpack(ask(plane, sm, method=GET, **how)[1][:72].tobytes()) == got


@pytest.mark.parametrize("more", [False, True])
def test_what_is_advertised(more):
    f, s, h = line(2)
    plane = AgentPlane(f, additional_counters=more)
    sm = program(f, plane, s, h)
    got = ClassPortInfo.unpack(ask(plane, sm, klass=4, attr=1, dlid=1)[1][:72].tobytes())
    # 0x5300 is what ConnectX and Quantum report, 0x2 in CapabilityMask2 with the additional counters.
    assert (got["cap_mask"], got["cap_mask2"]) == ((0xD300, 2) if more else (0x5300, 0))
    assert got["resp_time_value"] == 18


BY_GENERATION = {
    ("DDR", "ca"): (0x0100, 0),
    ("DDR", "switch"): (0x0100, 0),
    ("FDR", "ca"): (0x1300, 0),
    ("FDR", "switch"): (0x1300, 0),
    # perfquery -x of an EDR cluster, see counter_profiles
    ("EDR", "ca"): (0x5A00, 0),
    ("EDR", "switch"): (0x5300, 2),
    ("NDR", "switch"): (0x5300, 2),
}


@pytest.mark.parametrize(("generation", "kind"), BY_GENERATION)
def test_what_a_generation_advertises_it_has_and_nothing_else(generation, kind):
    f = generate("fat-tree", radix=4, levels=2, generation=generation)
    switch = int(f.switch_node[0])
    host = int(f.port_node[np.flatnonzero(f.linked & ~f.is_switch[f.port_node])[0]])
    port = int(f.port(host, 1))
    bring_up(f)
    plane = AgentPlane(f)
    node, number = (host, 1) if kind == "ca" else (switch, 1)
    lid = int(f.lid[port]) if kind == "ca" else int(f.lid[f.port(switch, 0)])
    row = int(f.port(node, number))
    f.counters["symbol_error_counter"][row] = 2**40
    f.counters["port_xmit_wait"][row] = 2**40
    f.counters["port_rcv_data"][row] = 2**50

    def asked(struct, select=number):
        data = struct.zeros()
        if struct is not ClassPortInfo:
            struct.port_select.set(data, select)
        status, data = ask(plane, port, klass=4, attr=struct.attr, dlid=lid, data=data)
        return status, struct.unpack(data[: struct.size].tobytes())

    mask, mask2 = BY_GENERATION[generation, kind]
    says = asked(ClassPortInfo)[1]
    assert (says["cap_mask"], says["cap_mask2"]) == (mask, mask2)
    status, wide = asked(perf_optional.PortCountersExtended)
    assert (status == 0) == bool(mask & 0x200)
    if mask & 0x200:
        assert wide["port_rcv_data"] >= 2**50
        assert wide["symbol_error_counter"] == wide["port_xmit_wait"] == (2**40 if mask2 else 0)
    plain = asked(PortCounters)[1]
    assert plain["symbol_error_counter"] == 0xFFFF
    assert plain["port_xmit_wait"] == (0xFFFFFFFF if mask & 0x1000 else 0), "32 bits stop there"
    assert (asked(PortCounters, 255)[0] == 0) == bool(mask & 0x100)
