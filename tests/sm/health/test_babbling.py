"""A port that floods the manager with traps is taken out, and given back (OpenSM's babbling_port_policy, which never gives one back)."""

from __future__ import annotations

import pytest

from softib.errors import InputError
from softib.fabric.node_finder import find_node
from softib.iba.constants import Method, MgmtClass, PhysState, PortState, SmpAttr
from softib.iba.notice import Notice, TrapPortThreshold
from softib.iba.smp import DATA_AT, MadHeader, PortInfo
from softib.mad.batch import MadBatch
from softib.sm.config import config_of
from softib.sm.options.fabric_yaml import check_keys
from softib.sm.options.file import read_options
from softib.sm.options.softib_options import FlapConfig
from tests.sm.hostile import HostileWire, S


def wire_with(threshold: int) -> HostileWire:
    wire = HostileWire(sweep_interval_ps=5 * S, flaps=FlapConfig(0, 60 * S, 30 * S, threshold))
    wire.run(5)
    assert wire.converged()
    return wire


def babble(wire: HostileWire, lid: int, trap: int, portnum: int, times: int, every_s: float = 0.01) -> None:
    """The device with ``lid`` sends a trap so many times."""
    for i in range(times):
        batch = MadBatch.zeros(1)
        batch.slid[:] = lid
        details = TrapPortThreshold.pack(lid=lid, portnum=portnum)
        head = MadHeader.pack(
            base_version=1,
            mgmt_class=int(MgmtClass.SUBN_LID),
            class_version=1,
            method=int(Method.TRAP),
            tid=i + 1,
            attr_id=int(SmpAttr.NOTICE),
        )
        batch.mad[0, : MadHeader.size] = head
        batch.mad[0, DATA_AT : DATA_AT + 64] = Notice.pack(
            is_generic=1, type=1, producer_type=1, trap_number=trap, issuer_lid=lid, data_details=details
        )
        wire._inbox = batch if wire._inbox is None else MadBatch.concat([wire._inbox, batch])
        wire.step()
        wire.run(every_s)


def host(wire: HostileWire) -> tuple[int, int]:
    """Port of a host, and the switch port in front of it."""
    port = wire.fabric.port(int(wire.fabric.cas[5]), 1)
    return int(port), int(wire.fabric.port_peer[port])


def phys(wire: HostileWire, port: int) -> int:
    return int(PortInfo.port_phys_state.get(wire.fabric.port_info[port]))


def test_a_host_that_babbles_is_taken_out_and_given_back():
    wire = wire_with(20)
    port, front = host(wire)
    babble(wire, int(wire.fabric.lid[port]), 144, 0, 19)
    assert phys(wire, front) == PhysState.LINK_UP
    babble(wire, int(wire.fabric.lid[port]), 144, 0, 1)
    wire.run(3)
    assert phys(wire, front) == PhysState.DISABLED
    assert not wire.lost_paths({int(wire.fabric.port_node[port])})
    wire.sm.request_sweep()
    wire.run(3)
    assert wire.told("is isolated: it floods the manager with traps")
    wire.run(40)
    assert wire.fabric.port_state[port] == PortState.ACTIVE and wire.converged(), "the pause is over"


def test_a_switch_port_that_trap_131_names_is_taken_out_at_the_nearer_end():
    wire = wire_with(20)
    f = wire.fabric
    leaf = find_node(f, "leaf-4")
    port = int(f.port(leaf, 3))
    babble(wire, int(f.lid[f.port(leaf, 0)]), 131, 3, 20)
    wire.run(3)
    assert PhysState.DISABLED in (phys(wire, port), phys(wire, int(f.port_peer[port])))
    assert not wire.lost_paths(), "all hosts are reached by other ways"


@pytest.mark.parametrize("what", ["slow", "switch", "own", "unasked"])
def test_who_is_not_taken_out(what):
    """Traps that are far apart; a switch for its own traps 128; the manager's own port; anybody where nobody asked for it."""
    wire = wire_with(0 if what == "unasked" else 10)
    f = wire.fabric
    port, _ = host(wire)
    leaf = find_node(f, "leaf-4")
    lid = {"slow": f.lid[port], "switch": f.lid[f.port(leaf, 0)], "own": f.lid[wire.port], "unasked": f.lid[port]}[what]
    babble(wire, int(lid), 128 if what == "switch" else 144, 0, 12, every_s=10 if what == "slow" else 0.01)
    wire.run(5)
    assert not wire.dead_links()


def test_options():
    fields, _ = read_options("babbling_port_policy TRUE\nflap_pause 7")
    config = config_of(fields).flaps
    assert config is not None and (config.babble_threshold, config.threshold, config.pause_ps) == (250, 0, 7 * S)
    assert config_of({}).flaps is None
    with pytest.raises(InputError, match="babbling_threshold: has no effect without babbling_port_policy"):
        check_keys({"babbling_threshold": 9})
