"""Faults of a running fabric: the hardware changes links, ports and switches; no MAD is involved.

    faults = LinkFaults(plane)
    faults.cut(port, now_ps)               # no signal: both ends go down and stay down
    faults.noise(port, 1e-9, now_ps)       # the cable makes bit errors
    faults.attenuate(port, 6, now_ps)      # 6 dB of the light for the port are lost
    faults.limit(port, 1, 1, now_ps)       # it trains at 1X SDR
    faults.slow(port, 0.001, now_ps)       # the port drains 1 Mb/s; overrun=True: it grants credits all the same
    faults.leave_out(port, 0.3, now_ps)    # the port leaves out 30 % of its flow-control packets
    faults.power(node, False, now_ps)      # a switch without power

The effects of each fault follow the specification (:mod:`softib.agents.kernels.faults.ber`,
:mod:`softib.agents.kernels.port_info`), and both ends show them. The bit error ratios of a fabric's
cables (column ``cable_ber``) are in effect from the start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.agents.kernels.faults.fault_columns import (
    BER,
    BITS,
    CUT,
    DEAD,
    DRAIN,
    DRAINED,
    FAULTY,
    FLOWED,
    HELD,
    LAVISH,
    LEFT_OUT,
    NOISY,
    PACKET_OCTETS,
    PHY_ERRORS,
    SETTLED,
    SLOW,
    STARVED,
    WAITED,
)
from softib.agents.kernels.faults.fec import LANE_GBPS, NRZ_CODE, PAM4, PAM4_CODE, SYMBOL_BITS, codeword, corrects
from softib.agents.kernels.link_events import fail_port, loss_of_ports, set_link, settle_ports
from softib.agents.kernels.samples import speed_code
from softib.agents.optical_faults import OpticalFaults
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_lanes, supported_speed_codes
from softib.fabric.power_cycle import forget
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo

if TYPE_CHECKING:
    from softib.agents.plane import AgentPlane

__all__ = ["LinkFaults", "plant_at_start"]


class LinkFaults:
    """Inject and clear faults of the links of ``plane``. ``port`` is a row of the port arrays:
    either end of a cable.

    Every method raises :class:`InputError` with a one-line message if the fault is impossible.
    """

    def __init__(self, plane: AgentPlane):
        self.fabric: Fabric = plane.fabric
        self.tables: Any = plane.tables
        self.optics = OpticalFaults(plane.fabric)
        self._trained: dict[int, np.ndarray] = {}
        self._lossy = np.zeros(0, np.int64)

    # -- links --

    def cut(self, port: int, now_ps: int = 0) -> None:
        """Cut the link, so that no signal passes. Both ends go down, count LinkDowned and poll;
        switches send trap 128. A Set(PortInfo) cannot bring the link up again; :meth:`mend` can."""
        for end in self._ends(port):
            self._mark(end, CUT, True, now_ps)
        set_link(self.tables, int(port), False, int(now_ps))

    def mend(self, port: int, now_ps: int = 0) -> None:
        """Restore the signal. Both ends train to INIT, unless one of them is disabled or has no
        power."""
        for end in self._ends(port):
            self._mark(end, CUT, False, now_ps)
        if not self.is_up(port):
            set_link(self.tables, int(port), True, int(now_ps))

    def is_up(self, port: int) -> bool:
        """Return whether the link at ``port`` is physically up (INIT or better)."""
        return int(self.fabric.port_state[port]) > 1

    def noise(self, port: int, ber: float, now_ps: int = 0) -> None:
        """Set the raw bit error ratio of the cable at ``port`` to ``ber`` in both directions; 0
        removes the fault."""
        if not 0 <= ber < 1:
            raise InputError(f"ber: {ber} is not a bit error ratio; use 0 to below 1, for example 1e-9")
        ends = self._ends(port)
        self.fabric.cable_ber[self.fabric.port_cable[port]] = ber
        for end in ends:
            self._noisy(end, now_ps)

    def attenuate(self, port: int, db: float, now_ps: int = 0) -> None:
        """Attenuate the light before it reaches ``port`` by ``db`` (a dirty connector, or a bend). The
        module in ``port`` reports less received power, and the received data has bit errors. 0
        removes the fault."""
        self.optics.lose(port, db)
        self._noisy(port, now_ps)

    def fade(self, port: int, db: float, now_ps: int = 0) -> None:
        """Reduce the output of the laser in ``port`` by ``db``. Its module reports less transmitted
        power, and the other end receives less. 0 removes the fault."""
        self.optics.fade(port, db)
        self._noisy(self._peer(port), now_ps)

    def expected_errors(self, port: int) -> dict[str, Any]:
        """Return the effects of bit errors at the worse end of the link of ``port``. Keys:
        ``raw_ber``; ``fec``, the code that corrects errors (empty: none); the numbers of codewords
        per second that it corrects and loses; ``symbol_errors_per_s`` (lost codewords; without a
        code, wrong symbols); ``post_fec_ber``, the bit error ratio after correction."""
        f = self.fabric
        end = max(self._ends(port), key=lambda e: float(self.tables.fault_rate[e, BER]))
        raw, code = float(self.tables.fault_rate[end, BER]), int(speed_code(self.tables, end))
        lanes = LANES_BY_BIT.get(int(PortInfo.link_width_active.get(f.port_info[end])), 0)
        bits_s = float(LANE_GBPS[code]) * lanes * 1e9
        errors: dict[str, Any] = {
            "raw_ber": raw,
            "fec": "",
            "corrected_codewords_per_s": 0.0,
            "lost_codewords_per_s": 0.0,
        }
        if not corrects(self.tables, end, code):
            return {**errors, "symbol_errors_per_s": raw * bits_s, "post_fec_ber": raw}
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        _, fixed, lost = codeword(raw, float(length), fixes)
        codewords_s = bits_s / (length * SYMBOL_BITS)
        lost_s = codewords_s * float(lost)
        # A lost codeword has more wrong symbols than the code can correct, and each has at least
        # one wrong bit.
        return {
            "raw_ber": raw,
            "fec": f"RS({length},514)",
            "corrected_codewords_per_s": codewords_s * float(fixed),
            "lost_codewords_per_s": lost_s,
            "symbol_errors_per_s": lost_s,
            "post_fec_ber": float(lost) * (fixes + 1) / (length * SYMBOL_BITS),
        }

    def _noisy(self, end: int, now_ps: int) -> None:
        """Set the bit error ratio of data that ``end`` receives, from that of the cable and from
        lack of light."""
        cable = float(self.fabric.cable_ber[self.fabric.port_cable[end]])
        ber = min(cable + self.optics.ber(end), 0.5)
        self._mark(end, NOISY, ber > 0, now_ps)
        self.tables.fault_rate[end, BER] = ber
        self.tables.fault[end, PHY_ERRORS] = 0

    def limit(self, port: int, lanes: int | None, code: int | None, now_ps: int = 0) -> None:
        """Limit training of the link to ``lanes`` lanes and speed ``code`` (None: no limit). A link
        that is up goes down and trains again; both ends count LinkDowned, because a recovery would
        keep width and speed. A link that is down has the limit when it trains next."""
        self.check_limit(port, lanes, code)
        ends = self._ends(port)
        before = self._trained.setdefault(min(ends), self.tables.trained[port].copy())
        for end in ends:
            self.tables.trained[end] = (before[0] if lanes is None else lanes, before[1] if code is None else code)
        self._retrain(port, now_ps)

    def check_limit(self, port: int, lanes: int | None, code: int | None) -> None:
        """Raise :class:`InputError` if the link at ``port`` cannot train to ``lanes`` lanes and
        speed ``code``."""
        ends = self._ends(port)
        best = int(supported_speed_codes(self.fabric, np.array(ends)).min())
        widths = int(np.bitwise_and.reduce(supported_lanes(self.fabric, np.array(ends))))
        supported = sorted(n for bit, n in LANES_BY_BIT.items() if bit & widths)
        name = self.fabric.port_name(port)
        if lanes is not None and lanes not in supported:
            raise InputError(
                f"width {lanes}X is not possible: the ends of {name} support {' and '.join(f'{n}X' for n in supported)}"
            )
        if code is not None and code > best:
            raise InputError(
                f"speed {SPEED_BY_CODE[code].name} is too fast: the ends of {name} support at most "
                f"{SPEED_BY_CODE[best].name}"
            )

    def unlimit(self, port: int, now_ps: int = 0) -> None:
        """Remove the limit that :meth:`limit` set. The link trains again."""
        ends = self._ends(port)
        before = self._trained.pop(min(ends), None)
        if before is not None:
            self.tables.trained[ends] = before
            self._retrain(port, now_ps)

    def _retrain(self, port: int, now_ps: int) -> None:
        if self.is_up(port):
            set_link(self.tables, int(port), False, int(now_ps))
            set_link(self.tables, int(port), True, int(now_ps))

    def slow(self, port: int, gbps: float | None, now_ps: int = 0, overrun: bool = False) -> None:
        """Let ``port`` drain its data VLs at ``gbps`` (0: not at all; None: at full rate again),
        both MADs and data of applications (column ``port_drain``). With ``overrun``, it grants
        credits even if its buffer is full (``port_drain`` is negative): MADs that arrive at the
        full buffer are lost, and trap 130 is raised. If ``gbps`` is also 0, all application packets
        are lost too."""
        if gbps is not None and not (gbps >= 0 and math.isfinite(gbps)):
            raise InputError(f"gbps: {gbps} is not a rate; use 0 (blocked) or more, for example 0.001")
        peer = self._peer(port)
        self._mark(port, SLOW, gbps is not None, now_ps)
        self._mark(port, LAVISH, gbps is not None and overrun, now_ps)
        self._settle([peer], now_ps)
        self.tables.fault[peer, HELD] = 0
        self.tables.fault[port, [DRAINED, WAITED, FLOWED]] = now_ps
        byte_ps = 0.0 if gbps is None else 8e3 / gbps if gbps else math.inf
        self.tables.fault_rate[port, DRAIN] = byte_ps * PACKET_OCTETS
        self.fabric.port_drain[port] = -byte_ps if overrun else byte_ps

    def leave_out(self, port: int, share: float, now_ps: int = 0) -> None:
        """Let ``port`` omit this share of its flow-control packets (0: none). The watchdog of its
        peer counts PortVLXmitFlowCtlUpdateErrors, starts recovery of the link, and raises trap 131
        (IBA 7.9.4)."""
        if not 0 <= share <= 1:
            raise InputError(f"share: {share} is not a share of the flow-control packets; use 0 to 1, for example 0.3")
        peer = self._peer(port)
        self._mark(peer, STARVED, share > 0, now_ps)
        self.tables.fault_rate[peer, LEFT_OUT] = share

    # -- switches --

    def power(self, node: int, on: bool, now_ps: int = 0) -> None:
        """Turn switch ``node`` off or on. If it is off, its neighbours' ports go down, it answers
        no MAD, and its configuration and counters are lost. When it is turned on, its links
        train."""
        f = self.fabric
        if f.node_type[node] != NodeType.SWITCH:
            raise InputError(f"{f.node_name(node)} is not a switch")
        rows = list(f.ports_of(node, port0=True))
        for port in rows:
            self._mark(port, DEAD, not on, now_ps)
        linked = [p for p in rows[1:] if f.port_peer[p] >= 0]
        if on:
            for port in linked:
                set_link(self.tables, port, True, int(now_ps))
            return
        for port in linked:
            if f.port_node[f.port_peer[port]] != node:
                fail_port(self.tables, int(f.port_peer[port]), int(now_ps))
        forget(f, node)
        self.tables.mkey_until[rows] = self.tables.cc_until[rows] = 0

    # -- queries --

    def marked(self) -> np.ndarray:
        """Return the rows of the ports that have a fault (int64)."""
        if not self.tables.options[FAULTY]:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.tables.fault[:, BITS])

    def is_dead(self, node: int) -> bool:
        """Return whether ``node`` has no power."""
        return bool(self.tables.fault[self.fabric.node_base[node] + 1, BITS] & DEAD)

    def publish(self) -> None:
        """Write column ``port_loss`` of the fabric: the probability that an application packet into
        each port is lost at the port's current speed."""
        ports = np.union1d(self._lossy, self.marked())
        if len(ports):
            loss_of_ports(self.tables, ports, self.fabric.port_loss)
        self._lossy = ports

    # -- time --

    def settle(self, ports: Any, now_ps: int) -> None:
        """Update the counters of ``ports`` to ``now_ps``, for callers that read them without the
        PMA."""
        self._settle(np.atleast_1d(ports), now_ps)

    def begin(self, now_ps: int) -> None:
        """Set the start of existing faults to ``now_ps``: they have caused no errors yet."""
        self.tables.fault[self.marked(), SETTLED] = now_ps

    def seed(self, seed: int) -> None:
        """Set the seed of the random numbers for bit errors. The same seed and the same MADs give
        the same errors."""
        self.tables.rng_state[0] = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1)

    # -- inner --

    def _settle(self, ports: Any, now_ps: int) -> None:
        if self.tables.options[FAULTY]:
            settle_ports(self.tables, np.asarray(ports, np.int64), int(now_ps))

    def _mark(self, port: int, bit: int, on: bool, now_ps: int) -> None:
        """Set or clear ``bit`` for ``port``. ``options[FAULTY]`` counts the ports that have at
        least one fault."""
        row = self.tables.fault[port]
        before = int(row[BITS])
        self._settle([port], now_ps)
        row[SETTLED] = max(int(row[SETTLED]), now_ps)
        row[BITS] = before | bit if on else before & ~bit
        self.tables.options[FAULTY] += bool(row[BITS]) - bool(before)

    def _peer(self, port: int) -> int:
        peer = int(self.fabric.port_peer[port])
        if peer < 0:
            raise InputError(f"{self.fabric.port_name(port)} has no cable; use a port with a cable")
        return peer

    def _ends(self, port: int) -> list[int]:
        return list(dict.fromkeys((int(port), self._peer(port))))


def plant_at_start(faults: LinkFaults) -> None:
    """Start the bit errors of the cables that have a bit error ratio in the fabric's source."""
    f = faults.fabric
    for cable in np.flatnonzero(f.cable_ber > 0).tolist():
        ends = f.cable_port[cable]
        if (ends >= 0).all() and f.port_peer[ends[0]] >= 0:
            faults.noise(int(ends[0]), float(f.cable_ber[cable]))
