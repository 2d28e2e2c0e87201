"""Links that are down, or slower or narrower than they could be or than their peers are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.finding import Finding, Severity
from softib.diags.registry import Context, check_function, code, finding
from softib.diags.rules import mode
from softib.diags.view import FabricView, speed_text
from softib.fabric.identity import Stated
from softib.iba.constants import PortState
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME, WIDTH_BITS
from softib.iba.smp import PortInfo

LINK_NOT_ACTIVE = code(
    "link-not-active", Severity.ERROR, "a cabled link is not in state ACTIVE",
    "DOWN: cable, transceiver, power; INIT or ARMED: the subnet manager has not configured it")  # fmt: skip
LINKS_NOT_ACTIVE = code(
    "fabric-not-active", Severity.ERROR, "most links are not in state ACTIVE",
    "start a subnet manager")  # fmt: skip
LINK_SLOW = code(
    "link-slow", Severity.WARNING, "a link runs at a lower speed than both ends support",
    "reseat or replace the cable; check that the speed is enabled at both ends (ibportstate)")  # fmt: skip
LINK_NARROW = code(
    "link-narrow", Severity.WARNING, "a link runs on fewer lanes than both ends support",
    "reseat or replace the cable: a lane did not train")  # fmt: skip
LINK_SLOWER_THAN_PEERS = code(
    "link-slower-than-peers", Severity.WARNING, "a link carries less than the other links of its kind",
    "compare cable, transceiver and firmware with those of its peers")  # fmt: skip
LINKS_BELOW_GENERATION = code(
    "links-below-generation", Severity.INFO, "all links of a kind run below what their parts were built for",
    "expected where cables, splitters or card variants are slower; else check the enabled speeds")  # fmt: skip

LINK_BIT_ERRORS = code(
    "link-bit-errors", Severity.WARNING, "a cable makes more bit errors than the specification allows",
    "clean or replace cable and transceivers")  # fmt: skip

MAX_BER = 1e-12
"""IBA volume 2: links shall have a bit error ratio below 1e-12."""
MANY = 8
PEER_SHARE = 0.75
"""Share of a kind that must agree before the rest counts as deviating."""
MIN_PEERS = 4

_GENERATION = np.zeros(1 << 16, np.int64)
for _id, _device in DEVICES.items():
    _GENERATION[_id] = SPEED_BY_NAME[_device.generation].code


@check_function
def not_active(c: Context) -> Iterator[Finding]:
    """Links whose ports are not ACTIVE, where the source records states."""
    view, f = c.view, c.view.fabric
    if "states" not in view.records or not len(view.cable):
        return
    state = f.port_state
    bad = np.flatnonzero((state[view.port_a] != PortState.ACTIVE) | (state[view.port_b] != PortState.ACTIVE))
    if len(bad) > max(MANY, len(view.cable) // 2):
        yield finding(LINKS_NOT_ACTIVE, [], f"{len(bad)} of {len(view.cable)} links are not active",
                      {"links": len(bad), "of": len(view.cable)})  # fmt: skip
        return
    for row in bad.tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        names = sorted({PortState(int(state[p])).name for p in (a, b) if state[p] != PortState.ACTIVE})
        yield finding(LINK_NOT_ACTIVE, [view.place(a), view.place(b)],
                      f"{view.link_name(a, b)}: {' / '.join(names)}, not ACTIVE", {"states": names})  # fmt: skip


def supported(view: FabricView, ports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(best speed code, widest lanes) that each port supports: as recorded, else the generation of the part (0 = unknown)."""
    f = view.fabric
    if "capabilities" not in view.records:
        stated = f.node_stated[f.port_node[ports]] & Stated.DEVICE
        code_of = np.where(stated, _GENERATION[f.device_id[f.port_node[ports]]], 0)
        return code_of, np.where(code_of > 0, 4, 0)
    info = f.port_info[ports]
    best = np.zeros(len(ports), np.int64)
    mlnx = f.port_mlnx_speed[ports, 0]
    for s in SPEED_BY_NAME.values():
        has = np.zeros(len(ports), bool)
        if s.ext2_bit:
            has = (PortInfo.link_speed_ext2_supported.get(info) & s.ext2_bit) > 0
        elif s.ext_bit:
            has = (PortInfo.link_speed_ext_supported.get(info) & s.ext_bit) > 0
        elif s.mlnx_bit:
            has = (mlnx & s.mlnx_bit) > 0
        elif s.speed_bit:
            has = (PortInfo.link_speed_supported.get(info) & s.speed_bit) > 0
        best[has] = s.code
    bits = PortInfo.link_width_supported.get(info).astype(np.int64)
    lanes = np.zeros(len(ports), np.int64)
    for n in sorted(WIDTH_BITS):
        lanes[(bits & WIDTH_BITS[n]) > 0] = n
    return best, lanes


@check_function
def slow(c: Context) -> Iterator[Finding]:
    """Links below what both ends can do, and below their peers; whole kinds that run low are one finding."""
    view = c.view
    if "speeds" not in view.records or not len(view.cable):
        return
    a, b = view.port_a, view.port_b
    speed = np.minimum(view.speed[a], view.speed[b]).astype(np.int64)
    lanes = np.minimum(view.lanes[a], view.lanes[b])
    sure = "capabilities" in view.records
    (speed_a, lanes_a), (speed_b, lanes_b) = supported(view, a), supported(view, b)
    can, wide = np.minimum(speed_a, speed_b), np.minimum(lanes_a, lanes_b)
    external = ~view.is_sharp[view.node_a] & ~view.is_sharp[view.node_b] & (speed > 0)
    kind = _kinds(c)
    for k in np.unique(kind[external]).tolist():
        rows = np.flatnonzero(external & (kind == k))
        yield from _judge(view, rows, speed, lanes, can, wide, sure)


def _kinds(c: Context) -> np.ndarray:
    """Peers of a link: the links between the same two kinds of parts on the same two tiers."""
    view, f = c.view, c.view.fabric
    part = c.structure.rank.astype(np.int64) + 2
    part = part * (1 << 16) + f.device_id
    part = np.unique(part, return_inverse=True)[1].reshape(-1)
    x, y = part[view.node_a], part[view.node_b]
    return np.asarray(np.minimum(x, y) * (part.max(initial=0) + 1) + np.maximum(x, y))


def _judge(
    view: FabricView,
    rows: np.ndarray,
    speed: np.ndarray,
    lanes: np.ndarray,
    can: np.ndarray,
    wide: np.ndarray,
    sure: bool,
) -> Iterator[Finding]:
    usual_rate, agreeing = mode(speed[rows] * 16 + lanes[rows])
    usual, usual_lanes = usual_rate // 16, usual_rate % 16
    majority = agreeing >= PEER_SHARE * len(rows) and len(rows) >= MIN_PEERS
    known = (can[rows] > 0) & (wide[rows] > 0)
    below = known & ((speed[rows] < can[rows]) | (lanes[rows] < wide[rows]))
    slower = (speed[rows] < usual) | ((lanes[rows] < usual_lanes) & (speed[rows] <= usual))
    single = rows[below if sure else (slower & majority)]
    single_is_usual = (speed[single] == usual) & (lanes[single] == usual_lanes)
    crowd = single[single_is_usual] if len(single) > MANY else single[:0]
    for row in np.setdiff1d(single, crowd).tolist():
        yield _single(view, row, speed, lanes, can, wide, sure, usual if majority else 0, int(usual_lanes))
    if len(crowd) or (not sure and majority and usual < can[rows].min(initial=99) and known.all()):
        count = len(crowd) or agreeing
        row = int(crowd[0] if len(crowd) else rows[0])
        yield finding(
            LINKS_BELOW_GENERATION, [view.place(int(view.port_a[row])), view.place(int(view.port_b[row]))],
            f"{count} links such as {view.link_name(int(view.port_a[row]), int(view.port_b[row]))} run at "
            f"{speed_text(usual, int(usual_lanes))}, their parts are {speed_text(int(can[row]), int(wide[row]))}",
            {"links": int(count), "speed": speed_text(usual), "lanes": int(usual_lanes), "can": speed_text(int(can[row]))},
        )  # fmt: skip


def _single(
    view: FabricView, row: int, speed: np.ndarray, lanes: np.ndarray, can: np.ndarray, wide: np.ndarray, sure: bool,
    usual: int, usual_lanes: int,
) -> Finding:  # fmt: skip
    a, b = int(view.port_a[row]), int(view.port_b[row])
    now = speed_text(int(speed[row]), int(lanes[row]))
    evidence = {"speed": speed_text(int(speed[row])), "lanes": int(lanes[row])}
    if usual:
        evidence["peers"] = speed_text(usual, usual_lanes)
    where = [view.place(a), view.place(b)]
    if not sure:
        return finding(LINK_SLOWER_THAN_PEERS, where, f"{view.link_name(a, b)}: runs at {now}, its peers at "
                       f"{speed_text(usual, usual_lanes)}", evidence)  # fmt: skip
    evidence |= {"can": speed_text(int(can[row])), "can_lanes": int(wide[row])}
    best = speed_text(int(can[row]), int(wide[row]))
    narrow = speed[row] >= can[row]
    return finding(LINK_NARROW if narrow else LINK_SLOW, where,
                   f"{view.link_name(a, b)}: runs at {now}, both ends can do {best if not narrow else f'{wide[row]}x'}",
                   evidence)  # fmt: skip


@check_function
def bit_errors(c: Context) -> Iterator[Finding]:
    """Cables whose known bit error ratio is above the floor."""
    view = c.view
    ber = view.fabric.cable_ber[view.cable]
    for row in np.flatnonzero(ber > MAX_BER).tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        yield finding(LINK_BIT_ERRORS, [view.place(a), view.place(b)],
                      f"{view.link_name(a, b)}: bit error ratio {ber[row]:g}, at most {MAX_BER:g} is allowed",
                      {"ber": float(ber[row])})  # fmt: skip
