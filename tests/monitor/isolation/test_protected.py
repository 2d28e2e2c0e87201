"""Ports that an M_Key protects: IBA 14.2.4, a Set without it is dropped, one with it is carried out."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import PeerError
from softib.iba.constants import PhysState
from softib.iba.smp import PortInfo
from softib.live.umad_client.wire import KeyedWire
from softib.monitor.isolation import ports
from softib.sm.config import SmConfig
from tests.monitor.lab import Wire, fabric_up, port_of

KEY = 0x1122334455667788


@pytest.mark.parametrize("level", [1, 2])
def test_ports_are_disabled_with_the_key_of_the_manager_alone(level, monkeypatch):
    monkeypatch.setattr(ports, "SmConfig", lambda: SmConfig(timeout_ps=5 * 10**9, retries=1))
    fabric = fabric_up()
    wire = Wire(fabric)
    held = np.flatnonzero(fabric.lid > 0)
    PortInfo.mkey.set(fabric.port_info, KEY, held)
    PortInfo.mkey_protect.set(fabric.port_info, level, held)
    port = port_of(fabric, "leaf-1", 3)
    end = int(fabric.node_guid[fabric.port_node[port]]), 3
    for stranger in (wire, KeyedWire(wire, KEY + 1)):
        if level == 1:  # Gets are answered
            one, why = ports.disable(stranger, [end])
            assert one is None and "M_Key" in why
        else:
            with pytest.raises(PeerError):
                ports.disable(stranger, [end])
    manager = KeyedWire(wire, KEY)
    assert ports.disable(manager, [end]) == (end, "")
    assert ports.link_states(manager, [end])[end][1] == PhysState.DISABLED
    assert ports.enable(manager, end) == ""
    assert ports.link_states(manager, [end])[end][1] != PhysState.DISABLED
