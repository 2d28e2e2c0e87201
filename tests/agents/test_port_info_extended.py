"""PortInfoExtended: only where it is advertised; enabled modes are kept, within what is supported."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.power_up import advertise_fec
from softib.iba.rates import SPEED_BY_NAME
from softib.iba.smp import PortInfo, PortInfoExtended

from .smps import SET, ask, changed, line, snapshot


def read(plane, sm, path, number, **kw):
    status, said = ask(plane, sm, attr=0x33, path=path, mod=number, **kw)
    return status, PortInfoExtended.unpack(said[:64].tobytes())


def test_not_there_unless_advertised():
    f, s, h = line(2, speed="EDR")
    plane, sm = AgentPlane(f), int(f.port(h[0], 1))
    assert read(plane, sm, [1], 7)[0] == 0x0C
    advertise_fec(f)
    assert read(plane, sm, [1], 7)[0] == 0
    ends = f.end_ports()
    assert (PortInfo.cap_mask2.get(f.port_info[ends]) & 2).all()
    assert not PortInfo.cap_mask2.get(f.port_info[int(f.port(s[0], 7))]), "external ports of a switch advertise nothing"


@pytest.mark.parametrize(
    ("speed", "there"), [("QDR", False), ("EDR", False), ("HDR", True), ("NDR", True), ("XDR", True)]
)
def test_devices_of_pam4_lanes_advertise_it(speed, there):
    """As ConnectX-7 and Quantum-2 do; a real file that is imported says the same."""
    f, _s, h = line(2, speed=speed)
    assert (PortInfo.cap_mask2.get(f.port_info[f.end_ports()]) & 2 > 0).all() == there
    plane, sm = AgentPlane(f), int(f.port(h[0], 1))
    assert (read(plane, sm, [1], 7)[0] == 0) == there


def test_a_link_that_trains_slower_has_no_fec():
    f, s, h = line(2, speed="NDR")
    plane, sm, port = AgentPlane(f), int(f.port(h[0], 1)), int(f.port(s[0], 7))
    assert read(plane, sm, [1], 7)[1]["fec_mode_active"] == 2
    plane.faults.limit(port, None, SPEED_BY_NAME["EDR"].code)
    assert read(plane, sm, [1], 7)[1]["fec_mode_active"] == 0
    plane.faults.unlimit(port)
    assert read(plane, sm, [1], 7)[1]["fec_mode_active"] == 2


@pytest.mark.parametrize(
    ("speed", "active", "fdr", "edr", "hdr", "ndr"),
    [("FDR", 0, 3, 0, 0, 0), ("EDR", 0, 3, 7, 0, 0), ("HDR", 2, 3, 7, 4, 0), ("NDR", 2, 3, 7, 4, 4)],
)
def test_modes_follow_the_speed(speed, active, fdr, edr, hdr, ndr):
    f, _s, h = line(2, speed=speed)
    advertise_fec(f)
    plane, sm = AgentPlane(f), int(f.port(h[0], 1))
    for path, number in (([1], 7), ([], 0), ([], 1)):
        got = read(plane, sm, path, number)[1]
        assert got["fec_mode_active"] == active and got["cap_mask"] == 1
        for name, modes in (("fdr", fdr), ("edr", edr), ("hdr", hdr), ("ndr", ndr)):
            assert got[f"{name}_fec_mode_supported"] == got[f"{name}_fec_mode_enabled"] == modes


def test_a_set_keeps_what_is_possible_and_refuses_the_rest():
    f, _s, h = line(2, speed="EDR")
    advertise_fec(f)
    plane, sm = AgentPlane(f), int(f.port(h[0], 1))
    want = {"edr_fec_mode_enabled": 4, "fdr_fec_mode_enabled": 1}
    status, got = read(plane, sm, [1], 7, method=SET, data=PortInfoExtended.pack(**want, edr_fec_mode_supported=0))
    assert status == 0 and {k: got[k] for k in want} == want and got["edr_fec_mode_supported"] == 7
    assert read(plane, sm, [1], 7)[1] == got and np.any(read(plane, sm, [1], 8)[1] != got)
    before = snapshot(f)
    for bad in ({"edr_fec_mode_enabled": 8}, {"hdr_fec_mode_enabled": 4}):
        assert read(plane, sm, [1], 7, method=SET, data=PortInfoExtended.pack(**bad))[0] == 0x1C
    assert read(plane, sm, [1], 9)[0] == 0x1C and changed(f, before) == []
