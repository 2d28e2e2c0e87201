"""Widths and speeds that ports may train to: OpenSM's options for all, a file by port; and the M_Key's lease and protection.

Oracle: what both ends of each cable read afterwards, by the rule that a link takes the highest that both have enabled (IBA 7.2.7).
"""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig, config_of
from softib.sm.options.link import parse_link_policy
from softib.sm.subnet_manager import SubnetManager

W4, W1, EDR, HDR = 2, 1, 2, 4


def up(**fields):
    return bring_up(generate("fat-tree", radix=4, levels=2, generation="HDR"), config=config_of(fields))


def read(fabric, field, port):
    return int(getattr(PortInfo, field).get(fabric.port_info[port]))


def settle_links(made) -> None:
    for _ in range(3):
        made.sweep()


def test_a_file_says_width_and_speed_by_port():
    rules = parse_link_policy("# slow them\nleaf-1[3] width=1x\nspine-*[2] speed=EDR,FDR\n")
    made = up(link_policy=rules)
    settle_links(made)
    f = made.fabric
    narrow = int(f.port(find_node(f, "leaf-1"), 3))
    for port in np.flatnonzero(f.linked).tolist():
        peer = int(f.port_peer[port])
        named = {f.port_name(port), f.port_name(peer)}
        width = W1 if f.port_name(narrow) in named else W4
        speed = EDR if any(n.startswith("spine-") and n.endswith("[2]") for n in named) else HDR
        assert read(f, "link_width_active", port) == width, f.port_name(port)
        assert read(f, "link_speed_ext_active", port) == speed, f.port_name(port)
        assert f.port_state[port] == PortState.ACTIVE
    assert read(f, "link_width_enabled", narrow) == W1
    assert not made.sweep().sets, "what is as wanted is left alone"


@pytest.mark.parametrize(
    ("fields", "width", "speed"),
    [
        ({"force_link_width": 1}, W1, HDR),
        ({"force_link_speed_ext": 2}, W4, EDR),
        ({"force_link_width": 3, "force_link_speed_ext": 3}, W4, EDR),
    ],
)
def test_opensms_options_hold_for_every_link_but_the_managers_own(fields, width, speed):
    made = up(**fields)
    settle_links(made)
    f = made.fabric
    own = {made.port, int(f.port_peer[made.port])}
    for port in np.flatnonzero(f.linked).tolist():
        expected = (W4, HDR) if port in own else (width, speed)
        assert (read(f, "link_width_active", port), read(f, "link_speed_ext_active", port)) == expected, f.port_name(
            port
        )
        assert f.port_state[port] == PortState.ACTIVE
        assert read(f, "link_speed_ext_enabled", port) == fields.get(
            "force_link_speed_ext", read(f, "link_speed_ext_enabled", port)
        )


def test_what_is_supported_is_given_back():
    made = up(force_link_width=1)
    settle_links(made)
    made.sm.reconfigure(SmConfig(links=config_of({"force_link_width": 255}).links, window=4096, chunk=4096))
    settle_links(made)
    f = made.fabric
    assert (PortInfo.link_width_active.get(f.port_info[f.linked]) == W4).all()
    assert (f.port_state[f.linked] == PortState.ACTIVE).all()


def test_a_link_that_does_not_train_as_wanted_is_tried_once():
    """The other end has a fault: it stays at 1x. The manager trains the link anew once, and says so."""
    made = up()
    f = made.fabric
    port = int(f.port(find_node(f, "leaf-1"), 3))
    info = f.port_info[[port, int(f.port_peer[port])]].copy()
    PortInfo.link_width_active.set(info, W1)  # nobody asked for it: a broken lane
    f.port_info[[port, int(f.port_peer[port])]] = info
    sm = made.sm
    sm.reconfigure(SmConfig(links=config_of({"force_link_width": 255}).links, window=4096, chunk=4096))
    send = made.plane.send

    def broken(batch, sender, now_ps=0):
        answers = send(batch, sender, now_ps)
        data = f.port_info[[port, int(f.port_peer[port])]]
        PortInfo.link_width_active.set(data, W1)
        f.port_info[[port, int(f.port_peer[port])]] = data
        return answers

    made.plane.send = broken
    settle_links(made)
    assert [n for n in sm.report.notes if "leaf-1[3]" in n or f.port_name(int(f.port_peer[port])) in n]
    assert len(sm._stores.trained) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("leaf-1[3]", "f:1: 'leaf-1[3]' sets nothing"),
        ("\nx width=3x", "f:2: '3x' is not a width; use 1x, 4x"),
        ("x speed=SLOW", "is not a speed; use SDR"),
        ("x[a] width=1x", "'a' is not a port"),
        ("x fast=1", "'fast=1' is not possible"),
    ],
)
def test_a_line_that_cannot_be_is_named(text, says):
    with pytest.raises(InputError) as error:
        parse_link_policy(text, "f")
    assert says in str(error.value) and "\n" not in str(error.value)


def test_mkey_protection_and_lease_are_the_devices():
    """IBA 14.2.4.1: with MKeyProtectBits 2 nobody reads without the key; the lease frees a port some seconds after a wrong key."""
    made = up(mkey=0xABCD, mkey_protect=2, mkey_lease=30)
    f, ends = made.fabric, made.fabric.end_ports()
    assert (PortInfo.mkey_protect.get(f.port_info[ends]) == 2).all()
    assert (PortInfo.mkey_lease_period.get(f.port_info[ends]) == 30).all()
    assert not made.sweep().problems
    stranger = SubnetManager()
    outbox, _ = stranger.step(0)
    assert not len(made.plane.send(outbox, made.port, made.now_ps)), "who does not show the key is not answered"
