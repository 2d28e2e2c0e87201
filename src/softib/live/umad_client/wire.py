"""The wire of a program that manages or reads a subnet: the transport of its MADs, the number sent at a time, and the
Gets that find a live master (as ``sminfo`` sends them)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from softib.errors import InputError
from softib.iba.constants import LID_PERMISSIVE, CapMask, Method, MgmtClass, PortState, SmpAttr
from softib.iba.smp import CLASS_AT, DATA_AT, MadHeader, PortInfo, SMInfo, Smp
from softib.live.clock import clock_ps
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.sm.ha.election import SmState

__all__ = [
    "MKEY_VARIABLE",
    "NO_ANSWER",
    "KeyedWire",
    "MadWire",
    "Master",
    "Pacing",
    "keyed",
    "live_manager",
    "live_master",
    "smp_get",
    "smp_set",
    "transact",
]

MKEY_VARIABLE = "SOFTIB_MKEY"
"""Environment variable with the M_Key of the subnet's manager, which users of this machine cannot see in a list of
processes."""
NO_ANSWER = f"the port's link is down, or it answers only with the M_Key: set {MKEY_VARIABLE}"
"""The reason why the local port does not answer."""
SLOW_PS, FAST_PS = 20 * 10**9, 5 * 10**9
"""A batch that took longer than 20 ms was too large; a batch that took less than 5 ms could have been larger."""
FIRST, LEAST, MOST = 64, 8, 4096


class MadWire(Protocol):
    """The methods of :class:`softib.live.umad_client.port.UmadPort` that other transports of MADs also have."""

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """Send a batch, and receive pending MADs."""

    def wait(self, timeout_s: float) -> bool:
        """Return whether a MAD has arrived, or arrives within ``timeout_s``."""


@dataclass
class KeyedWire:
    """A wire that sets ``mkey`` in each SMP, as the subnet's manager does, and then sends it over ``wire``."""

    wire: MadWire
    mkey: int

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """Exchange MADs over ``wire``."""
        if outbox is not None and len(outbox):
            smps = np.isin(outbox.mad[:, CLASS_AT], (int(MgmtClass.SUBN_LID), int(MgmtClass.SUBN_DR)))
            Smp.mkey.set(outbox.mad, self.mkey, np.flatnonzero(smps))
        return self.wire.exchange(outbox)

    def wait(self, timeout_s: float) -> bool:
        """Wait on ``wire``."""
        return self.wire.wait(timeout_s)


def keyed(wire: MadWire, mkey: int | None = None) -> MadWire:
    """Return ``wire`` with the M_Key of the subnet's manager, or unchanged for 0. None: the key in the environment
    variable :data:`MKEY_VARIABLE`, if it is set. Raises :class:`InputError` for anything but a number of 64 bits.
    """
    where = "mkey"
    if mkey is None:
        text, where = os.environ.get(MKEY_VARIABLE, "").strip() or "0", MKEY_VARIABLE
        try:
            mkey = int(text, 0)
        except ValueError:
            mkey = -1
    if not 0 <= mkey < 1 << 64:
        raise InputError(f"{where} is not an M_Key; use a number of 64 bits, for example 0x1122334455667788")
    return KeyedWire(wire, mkey) if mkey else wire


class Pacing:
    """Sets the window of ``transactor`` so that a batch takes about 10 ms. (A wire has only a few requests outstanding
    at a time.)

    The transactor counts a timeout from the moment it hands over a request: in a large batch on a slow wire, requests
    would time out before they have been sent.
    """

    def __init__(self, transactor: Transactor):
        self.transactor = transactor
        transactor.resize(FIRST)

    def took(self, mads: int, duration_ps: int) -> None:
        """Adapt the window: a batch of ``mads`` took ``duration_ps``."""
        window = self.transactor.window
        if duration_ps > SLOW_PS:
            self.transactor.resize(max(LEAST, window // 2))
        elif duration_ps < FAST_PS and 2 * mads > window:
            self.transactor.resize(min(MOST, 2 * window))

    def exchange(self, wire: MadWire, now_ps: int) -> MadBatch | None:
        """Send the transactor's MADs that are due by ``now_ps``, or wait at most 0.25 s for answers.
        Return the answers, or None."""
        outbox, deadline_ps = self.transactor.send(now_ps)
        self.transactor.postpone(clock_ps() - now_ps)
        if len(outbox):
            inbox = wire.exchange(outbox)
            self.took(len(outbox), clock_ps() - now_ps)
            return inbox
        if self.transactor.busy and wire.wait(min(0.25, max(0.0, (deadline_ps - clock_ps()) / 1e12))):
            return wire.exchange()
        return None


TIMEOUT_PS, RETRIES = 200 * 10**9, 2
PS_PER_S = 1e12


@dataclass(frozen=True)
class Master:
    """A manager that answered: its LID, PortGUID and priority."""

    lid: int
    guid: int
    priority: int

    def __str__(self) -> str:
        lid = f"LID {self.lid}, " if self.lid else ""
        return f"{lid}PortGUID {self.guid:#018x}, priority {self.priority}"


def smp_get(attr: SmpAttr, modifier: int = 0, dlid: int = LID_PERMISSIVE, mkey: int = 0) -> MadBatch:
    """Return one Get, addressed to ``dlid``, or to the local port (a directed route with no hops)."""
    batch = MadBatch.zeros(1)
    directed = dlid == LID_PERMISSIVE
    mad = batch.mad[0]
    mad[: MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_DR if directed else MgmtClass.SUBN_LID),
        class_version=1,
        method=int(Method.GET),
        attr_id=int(attr),
        attr_mod=modifier,
    )
    Smp.mkey.set(mad, mkey)
    if directed:
        Smp.dr_slid.set(mad, LID_PERMISSIVE)
        Smp.dr_dlid.set(mad, LID_PERMISSIVE)
    batch.dlid[0] = dlid
    return batch


def smp_set(attr: SmpAttr, data: np.ndarray, modifier: int = 0, dlid: int = LID_PERMISSIVE, mkey: int = 0) -> MadBatch:
    """Return one Set of ``data`` (uint8[at most 64]), addressed as :func:`smp_get` does."""
    batch = smp_get(attr, modifier, dlid, mkey)
    MadHeader.method.set(batch.mad[0, : MadHeader.size], int(Method.SET))
    batch.mad[0, DATA_AT : DATA_AT + len(data)] = data
    return batch


def transact(wire: MadWire, request: MadBatch) -> np.ndarray | None:
    """Send one SMP, and return the attribute (uint8[64]) in the answer; None if there is no answer, or it has a bad
    status."""
    t = Transactor(1, TIMEOUT_PS, RETRIES)
    t.submit(request, np.zeros(1, np.int64))
    inbox: MadBatch | None = None
    while t.busy:
        outbox, deadline_ps = t.step(clock_ps(), inbox)
        for done in t.completed():
            mad = done.batch.mad[0]
            bad = done.timed_out or int(MadHeader.status.get(mad)) & 0x7FFF
            return None if bad else mad[DATA_AT : DATA_AT + 64].copy()
        inbox = wire.exchange(outbox)
        if inbox is None:
            wire.wait(min(0.25, max(0.0, (deadline_ps - clock_ps()) / PS_PER_S)))
            inbox = wire.exchange()
    return None


class Manager(NamedTuple):
    """The manager that a port ``named`` as the master, and its own ``state``."""

    named: Master
    state: SmState


def live_manager(wire: MadWire, mkey: int = 0) -> Manager | None:
    """Return the manager that the port names as the master, with its state (IBA 14.4.1), if it answers SMInfo."""
    info = transact(wire, smp_get(SmpAttr.PORT_INFO, mkey=mkey))
    if info is None or int(PortInfo.port_state.get(info)) != PortState.ACTIVE:
        return None
    lid = int(PortInfo.master_sm_lid.get(info))
    here = lid == int(PortInfo.lid.get(info))
    if not lid or (here and not int(PortInfo.cap_mask.get(info)) & CapMask.IS_SM):
        return None  # no manager runs on this port now, so a query would only time out
    reply = transact(wire, smp_get(SmpAttr.SM_INFO, dlid=lid, mkey=mkey))
    state = None if reply is None else int(SMInfo.sm_state.get(reply))
    if reply is None or state not in set(SmState):
        return None
    return Manager(Master(lid, int(SMInfo.guid.get(reply)), int(SMInfo.priority.get(reply))), SmState(state))


def live_master(wire: MadWire, mkey: int = 0) -> Master | None:
    """Return the master of the port's subnet if it answers SMInfo as a master."""
    answer = live_manager(wire, mkey)
    return answer.named if answer is not None and answer.state == SmState.MASTER else None
