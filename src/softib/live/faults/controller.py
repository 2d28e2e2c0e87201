"""The effects of ``softib fault`` on a running fabric, and the later steps of a fault, for example
the next flap or the end of link training.

    faults = FaultController(router)
    reply = faults.do({"kind": "flap", "where": "leaf-3[40]", "period_s": 2.0, "count": 5})
    faults.tick(clock_ps())                # each step of the daemon; wait_s() returns when the next is due

The effects are those of :class:`softib.agents.link_faults.LinkFaults`; the controller keeps the list of faults and
counts the epoch.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from softib.agents.link_faults import LinkFaults
from softib.errors import InputError, UnknownName
from softib.fabric.faults.targets import node_at, port_at
from softib.fabric.node_finder import split_port
from softib.iba.constants import PhysState, PortState
from softib.iba.rates import SPEED_BY_NAME
from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from softib.live.faults.fault_list import PS, Fault, FaultList, locations_of
from softib.live.faults.options import KINDS, flap_times, options_of
from softib.live.faults.replies import ActiveFault, ExpectedErrors, FaultReply
from softib.live.mad_router import MadRouter

__all__ = ["FaultController"]

AMOUNTS: dict[str, tuple[str, Callable[[LinkFaults, int, float, int], None]]] = {
    "ber": ("ber", LinkFaults.noise),
    "attenuation": ("db", LinkFaults.attenuate),
    "weak-laser": ("db", LinkFaults.fade),
    "flow-control": ("share", LinkFaults.leave_out),
}
"""Kinds of fault whose only parameter is a number (0 removes the fault): for each, the option with the number, and the
function that injects the fault."""
TRAINING_PS = PS
"""Time for which a link polls and trains before it is up again: 1 s, so that observers can see it down."""


class FaultController:
    """Injects and removes faults in the fabric of ``router``. All methods run in the daemon's thread."""

    def __init__(self, router: MadRouter, clock: Callable[[], int] = clock_ps):
        self.router, self.fabric, self.faults, self.clock = router, router.fabric, router.plane.faults, clock
        self.planted = FaultList(self.fabric)
        self._built_with: dict[int, int] = {}
        self._later: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = itertools.count()
        self._from_start()
        self.faults.publish()

    def _from_start(self) -> None:
        f = self.fabric
        self.faults.begin(self.clock())
        for cable in (f.cable_ber > 0).nonzero()[0].tolist():
            port = int(f.cable_port[cable, 0])
            if port >= 0 and f.port_peer[port] >= 0:
                self.planted.add("ber", port, {"ber": float(f.cable_ber[cable])}, self.clock())

    # -- requests --

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute ``request``, a dict with ``kind`` (one of :data:`~softib.live.faults.options.KINDS`), ``where``, and
        the options of the kind.

        Raises :class:`InputError` in one line if it cannot be executed; then nothing is changed.
        """
        kind = request.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise UnknownName("fault", str(kind), KINDS)
        options = options_of(kind, request)
        now_ps = self.clock()
        if kind == "list":
            return FaultReply(faults=[fault.described(now_ps) for fault in self.planted.all]).to_json()
        where = request.get("where")
        if kind == "clear" and where is None:
            self.router.fold(now_ps)
            cleared = [self._clear(fault, now_ps) for fault in self.planted.all]
            self._changed(now_ps)
            return FaultReply(cleared=cleared).to_json()
        given = where if isinstance(where, list) else [where]
        if not given or not all(isinstance(one, str) for one in given):
            raise InputError(f"fault {kind} needs a place: {KINDS[kind].place}")
        of_node = KINDS[kind].of_node
        locations = list(dict.fromkeys(p for one in given for p in locations_of(self.fabric, str(one), of_node)))
        rows = [
            node_at(self.fabric, p) if of_node else self._place(kind, p) for p in locations
        ]  # checked before anything is changed
        self.router.fold(now_ps)  # count the packets that applications have lost so far, before the link changes
        replies = [self._orders()[kind](row, options, now_ps) for row in rows]
        self._changed(now_ps)
        if kind == "clear":
            return FaultReply(kind, cleared=[fault for one in replies for fault in one.cleared or ()]).to_json()
        if len(replies) == 1:
            return replace(replies[0], kind=kind).to_json()
        return FaultReply(kind, locations=replies).to_json()

    def _orders(self) -> dict[str, Callable[[int, dict[str, Any], int], FaultReply]]:
        return {
            "link-down": self._link_down,
            "link-up": self._link_up,
            "flap": self._flap,
            **{kind: partial(self._amount, kind) for kind in AMOUNTS},
            "hot-module": self._hot_module,
            "downgrade": self._downgrade,
            "slow-port": self._slow_port,
            "switch-down": lambda node, options, now_ps: self._power(node, False, now_ps),
            "switch-up": lambda node, options, now_ps: self._power(node, True, now_ps),
            "sys-guid": self._sys_guid,
            "clear": self._clear_place,
        }

    def _place(self, kind: str, where: str) -> int:
        if kind == "clear":
            try:
                return -1 - node_at(self.fabric, where)
            except UnknownName:
                if split_port(where) is None:
                    raise
        port = port_at(self.fabric, where)
        if self.fabric.port_peer[port] < 0:
            raise InputError(f"{self.fabric.port_name(port)} has no cable; name a port with a cable")
        return port

    def _stop_flapping(self, port: int) -> None:
        self.planted.forget("flap", port)
        self.planted.forget("link-down", port)

    def _link_down(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self._stop_flapping(port)
        self.faults.cut(port, now_ps)
        self.planted.add("link-down", port, {}, now_ps)
        return self._link(port)

    def _link_up(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self._stop_flapping(port)
        self.faults.mend(port, now_ps)
        return self._link(port)

    def _flap(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self._stop_flapping(port)
        self._flap_on(self.planted.add("flap", port, options, now_ps), now_ps, now_ps)
        return self._link(port)

    def _flap_on(self, fault: Fault, due_ps: int, now_ps: int) -> None:
        """Take the link down. It comes up after ``down_s``, and the next flap begins one period after this one."""
        count, period_ps, down_ps = flap_times(fault.options)
        if fault.over:
            return
        if count is not None and fault.flaps >= count:
            self.planted.forget("flap", fault.row)
            return
        fault.flaps += 1
        self.faults.cut(fault.row, now_ps)
        self._at(due_ps + down_ps, lambda now: None if fault.over else self.faults.mend(fault.row, now))
        self._at(due_ps + period_ps, lambda now: self._flap_on(fault, due_ps + period_ps, now))

    def _amount(self, kind: str, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        """Inject a fault of :data:`AMOUNTS`, and return the reply. If the fault makes bit errors, the reply has their
        expected effect."""
        option, plant = AMOUNTS[kind]
        plant(self.faults, port, float(options[option]), now_ps)
        self.planted.forget(kind, port)
        if options[option]:
            self.planted.add(kind, port, options, now_ps)
        link = self._link(port)
        if kind == "flow-control":
            return link
        return replace(link, errors=ExpectedErrors(**self.faults.expected_errors(port)))

    def _hot_module(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self.faults.optics.heat(port, float(options["celsius"]))
        self.planted.add("hot-module", port, options, now_ps)
        return self._link(port)

    def _downgrade(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        if not options:
            raise InputError("fault downgrade needs --width LANES, --speed GENERATION, or both")
        lanes, speed = options.get("width"), options.get("speed")
        if speed is not None and speed not in SPEED_BY_NAME:
            raise UnknownName("speed", speed, SPEED_BY_NAME)
        code = None if speed is None else SPEED_BY_NAME[speed].code
        self.faults.check_limit(port, lanes, code)
        self._retrain(port, now_ps, lambda: self.faults.limit(port, lanes, code, now_ps))
        self.planted.add("downgrade", port, options, now_ps)
        return self._link(port)

    def _retrain(self, port: int, now_ps: int, change: Callable[[], None]) -> None:
        """Take the link down, apply ``change``, and bring it up after training (IBA 5.6.4: Polling,
        Configuration)."""
        was_up = self.faults.is_up(port)
        if was_up:
            self.faults.cut(port, now_ps)
        change()
        if was_up:
            self._at(now_ps + TRAINING_PS, lambda now: self._trained(port, now))

    def _trained(self, port: int, now_ps: int) -> None:
        if not self.planted.has("link-down", port) and not self.planted.has("flap", port):
            self.faults.mend(port, now_ps)

    def _slow_port(self, port: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self.faults.slow(port, float(options["gbps"]), now_ps, bool(options.get("overrun")))
        self.planted.add("slow-port", port, options, now_ps)
        return self._link(port)

    def _power(self, node: int, on: bool, now_ps: int) -> FaultReply:
        name = self.fabric.node_name(node)
        if self.fabric.switch_of_node[node] >= 0 and self.faults.is_dead(node) != on:
            state = "has power; only fault switch-down switches it off" if on else "already has no power"
            raise InputError(f"{name} {state}")
        self.faults.power(node, on, now_ps)
        if on:
            self.planted.forget("switch-down", node)
        else:
            self.planted.add("switch-down", node, {}, now_ps)
        return FaultReply(node=name, power=not self.faults.is_dead(node))

    def _sys_guid(self, node: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        self._built_with.setdefault(node, int(self.fabric.sys_guid[node]))
        self.router.plane.set_sys_guid(node, int(options["guid"], 16), now_ps)
        self.planted.add("sys-guid", node, options, now_ps)
        return FaultReply(node=self.fabric.node_name(node), sys_guid=options["guid"])

    # -- removal --

    def _clear(self, fault: Fault, now_ps: int) -> ActiveFault:
        """Undo one fault. Return its description as it was before."""
        cleared, row = fault.described(now_ps), fault.row
        fault.over = True
        self.planted.forget(fault.kind, row)
        if fault.kind in AMOUNTS:
            AMOUNTS[fault.kind][1](self.faults, row, 0.0, now_ps)
            return cleared
        heal: dict[str, Callable[[], None]] = {
            "link-down": lambda: self.faults.mend(row, now_ps),
            "flap": lambda: self.faults.mend(row, now_ps),
            "hot-module": lambda: self.faults.optics.heat(row, None),
            "downgrade": lambda: self._retrain(row, now_ps, lambda: self.faults.unlimit(row, now_ps)),
            "slow-port": lambda: self.faults.slow(row, None, now_ps),
            "switch-down": lambda: self.faults.power(row, True, now_ps),
            "sys-guid": lambda: self.router.plane.set_sys_guid(row, self._built_with.pop(row), now_ps),
        }
        heal[fault.kind]()
        return cleared

    def _clear_place(self, row: int, options: dict[str, Any], now_ps: int) -> FaultReply:
        """Undo the faults of a port's link (``row`` ≥ 0) or of node -1 - ``row``: its power and all its links."""
        return FaultReply(cleared=[self._clear(fault, now_ps) for fault in self.planted.at(row)])

    def _link(self, port: int) -> FaultReply:
        f = self.fabric
        state = PortState(int(f.port_state[port])).name
        phys = PhysState(int(PortInfo.port_phys_state.get(f.port_info[port]))).name
        return FaultReply(ports=[f.port_name(port), f.port_name(int(f.port_peer[port]))], state=state, phys_state=phys)

    # -- time --

    def _at(self, due_ps: int, action: Callable[[int], None]) -> None:
        heapq.heappush(self._later, (due_ps, next(self._order), action))

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until :meth:`tick` has work (infinite: no fault has a later step)."""
        return max(0.0, (self._later[0][0] - now_ps) / PS) if self._later else math.inf

    def tick(self, now_ps: int) -> None:
        """Execute everything that is due."""
        did = False
        while self._later and self._later[0][0] <= now_ps:
            heapq.heappop(self._later)[2](now_ps)
            did = True
        if did:
            self._changed(now_ps)

    def settle(self, now_ps: int) -> None:
        """Update the counters of ports with a fault, for programs that read the mapped arrays instead of the PMA."""
        ports = self.faults.marked()
        if len(ports):
            peers = self.fabric.port_peer[ports]  # the peer of a slow port also waits
            self.faults.settle(np.concatenate([ports, peers[peers >= 0]]), now_ps)

    def _changed(self, now_ps: int) -> None:
        self.faults.publish()
        self.router.epoch += 1
        self.router.traps(now_ps)
