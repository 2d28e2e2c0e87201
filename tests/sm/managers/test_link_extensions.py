"""FDR10 by Mellanox' ExtendedPortInfo and FEC modes by PortInfoExtended, for all ports or by a file. Oracle: what the devices read afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.node_finder import find_node
from softib.fabric.power_up import advertise_fec
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo, PortInfoExtended
from softib.scenario.bring_up import bring_up
from softib.sm.config import config_of
from softib.sm.options.link import parse_link_policy

ENABLED, ACTIVE = 1, 2
"""Columns of ``port_mlnx_speed``."""


def up(generation: str, **fields):
    fabric = generate("fat-tree", radix=4, levels=2, generation=generation)
    if generation != "FDR10":
        advertise_fec(fabric)
    made = bring_up(fabric, config=config_of(fields))
    for _ in range(3):
        made.sweep()
    return made


def test_fdr10_is_disabled_and_enabled_again():
    made = up("FDR10", fdr10=2)
    f = made.fabric
    own = {made.port, int(f.port_peer[made.port])}
    others = np.array([p for p in np.flatnonzero(f.linked).tolist() if p not in own])
    assert not f.port_mlnx_speed[others, ENABLED].any() and not f.port_mlnx_speed[others, ACTIVE].any(), (
        "they train QDR"
    )
    assert (f.port_mlnx_speed[list(own), ACTIVE] == 1).all(), "the manager's own link is not trained"
    assert (f.port_state[f.linked] == PortState.ACTIVE).all()
    assert not made.sweep().sets, "what is as wanted is left alone"
    made.sm.reconfigure(config_of({"fdr10": 1, "window": 4096, "chunk": 4096}))
    for _ in range(3):
        made.sweep()
    assert (f.port_mlnx_speed[f.linked, ACTIVE] == 1).all() and (f.port_state[f.linked] == PortState.ACTIVE).all()


def test_without_the_option_nobody_is_asked():
    made = up("FDR10")
    assert not [kind for kind in made.report.mads if "MLNX" in kind or "PORT_INFO_EXT" in kind]


def test_a_file_says_fdr10_and_fec_by_port():
    made = up("FDR10", link_policy=parse_link_policy("leaf-1[1] fdr10=off"))
    f = made.fabric
    port = int(f.port(find_node(f, "leaf-1"), 1))
    ends = {port, int(f.port_peer[port])}
    off = {p for p in np.flatnonzero(f.linked).tolist() if not f.port_mlnx_speed[p, ACTIVE]}
    assert off == (ends if made.port not in ends else set())


@pytest.mark.parametrize(
    ("generation", "modes", "edr", "hdr"),
    [("EDR", "rs", 4, 0), ("EDR", "none,firecode", 3, 0), ("HDR", "rs,none", 5, 4), ("HDR", "none", 1, 4)],
)
def test_fec_modes_are_those_of_the_rule_as_far_as_a_generation_has_them(generation, modes, edr, hdr):
    made = up(generation, link_policy=parse_link_policy(f"leaf-* fec={modes}"))
    f = made.fabric
    for port in np.flatnonzero(f.linked).tolist():
        image = np.zeros((1, 64), np.uint8)
        image[0, : f.port_info_ext.shape[1]] = f.port_info_ext[port]
        read = PortInfoExtended.edr_fec_mode_enabled.get(image)[0], PortInfoExtended.hdr_fec_mode_enabled.get(image)[0]
        on_leaf = f.port_name(port).startswith("leaf-")
        assert read == ((edr, hdr) if on_leaf else (7, 4 if generation == "HDR" else 0)), f.port_name(port)
    assert (f.port_state[f.linked] == PortState.ACTIVE).all() and not made.sweep().sets


FECS = [
    ("EDR", "leaf-* fec=rs\nspine-* fec=rs", 2, "EDR"),
    ("EDR", "leaf-* fec=rs", 2, "EDR"),
    ("EDR", "leaf-* fec=firecode,rs\nspine-* fec=rs", 2, "EDR"),
    ("EDR", "leaf-* fec=firecode", 1, "EDR"),
    ("EDR", "leaf-* fec=firecode\nspine-* fec=rs", 0, "EDR"),
    ("EDR", "leaf-* fec=none,rs", 0, "EDR"),
    ("HDR", "leaf-* fec=rs", 2, "HDR"),
]


@pytest.mark.parametrize(("generation", "text", "active", "speed"), FECS)
def test_the_mode_that_is_active_is_one_that_both_ends_enable(generation, text, active, speed):
    """FECModeActive by FECModeEnabled of both ends at the active speed (IBA 14.2.5.19), not by the generation alone."""
    f = up(generation, link_policy=parse_link_policy(text)).fabric
    between = f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
    image = np.zeros((f.sizes.ports, 64), np.uint8)
    image[:, : f.port_info_ext.shape[1]] = f.port_info_ext
    assert set(PortInfoExtended.fec_mode_active.get(image)[between].tolist()) == {active}
    assert (f.port_state[between] == PortState.ACTIVE).all()


def test_pam4_lanes_without_a_common_mode_train_a_slower_generation():
    """RS-FEC disabled at one end of an HDR link: PAM4 does not work without, so both ends fall back to EDR."""
    made = up("HDR")
    f = made.fabric
    port = int(
        f.port(
            find_node(f, "leaf-1"),
            int(f.port_num[np.flatnonzero(f.linked & (f.port_node == find_node(f, "leaf-1")))[-1]]),
        )
    )
    image = np.zeros((1, 64), np.uint8)
    image[0, : f.port_info_ext.shape[1]] = f.port_info_ext[port]
    PortInfoExtended.hdr_fec_mode_enabled.set(image, 1)
    f.port_info_ext[port] = image[0, : f.port_info_ext.shape[1]]
    made.plane.set_link(port, False, made.now_ps)
    made.plane.set_link(port, True, made.now_ps)
    for end in (port, int(f.port_peer[port])):
        assert PortInfo.link_speed_ext_active.get(f.port_info[end][None])[0] == 2, "EDR"
        image[0, : f.port_info_ext.shape[1]] = f.port_info_ext[end]
        assert PortInfoExtended.fec_mode_active.get(image)[0] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a fec=best", "'best' is not a fec; use none, firecode, rs, ll-rs"),
        ("a fdr10=maybe", "'maybe' is not a fdr10; use on, off"),
    ],
)
def test_a_mistake_is_a_line(text, says):
    with pytest.raises(InputError, match=says):
        parse_link_policy(text)
