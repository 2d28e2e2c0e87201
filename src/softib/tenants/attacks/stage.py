"""The stage of a rehearsal (attacker and victim on the twin, a fabric that softib runs for this purpose), and the
outcome of an attack.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.smp import PKeyTable, PortInfo
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import smp_get, smp_set, transact
from softib.mad.batch import MadBatch
from softib.result import Result

__all__ = [
    "BASE",
    "FULL",
    "NOT_NEEDED",
    "NOT_TRIED",
    "STOPPED",
    "THROUGH",
    "Attempt",
    "Outcome",
    "Stage",
    "keys_of",
    "shared_key",
    "wanted_key",
]

Outcome = Literal["stopped", "got through", "not needed", "not tried"]
STOPPED: Outcome = "stopped"
THROUGH: Outcome = "got through"
NOT_NEEDED: Outcome = "not needed"
NOT_TRIED: Outcome = "not tried"
BASE, FULL = 0x7FFF, 0x8000


@dataclass(frozen=True)
class Attempt(Result):
    """One attack on the twin, and its outcome."""

    attack: str
    """Name of the attack."""
    clause: str
    """Clause of the specification that defines the defence."""
    outcome: Outcome
    """``not needed``: the attacker gains no advantage in this case."""
    seen: str
    """What was observed."""
    advice: str
    """The settings that prevent the attack; empty if it did not succeed."""


@dataclass
class Stage:
    """A running fabric for the rehearsal. ``attacker`` and ``victim``: two hosts, with their connections to the subnet,
    LIDs and PortGUIDs. ``trusted``: the manager's connection, which uses the M_Key ``mkey``. ``leaf``: LID of the
    victim's switch. ``gates``: (LID, port) of the switch ports to both hosts. ``run`` starts a program on a node.
    ``sweeps`` returns the number of the manager's sweeps. ``key``: the M_Key that the attacker has obtained in an
    earlier attack.
    """

    attacker: str
    victim: str
    wires: dict[str, UmadPort]
    lids: dict[str, int]
    guids: dict[str, int]
    trusted: UmadPort
    mkey: int
    leaf: int
    gates: list[tuple[int, int]]
    run: Callable[[str, list[str]], subprocess.Popen[str]]
    sweeps: Callable[[], int]
    key: int = field(default=0)

    def attack(self, request: MadBatch) -> np.ndarray | None:
        """Return the answer to one SMP of the attacker."""
        return transact(self.wires[self.attacker], request)

    def truth(self, attr: SmpAttr, lid: int, modifier: int = 0) -> np.ndarray:
        """Return an attribute (uint8[64]) as the manager reads it."""
        answer = transact(self.trusted, smp_get(attr, modifier, lid, self.mkey))
        return np.zeros(64, np.uint8) if answer is None else answer

    def restore(self, attr: SmpAttr, data: np.ndarray, lid: int, modifier: int = 0) -> None:
        """Restore, with the manager's M_Key, the values that an attack changed."""
        transact(self.trusted, smp_set(attr, data, modifier, lid, self.mkey))

    @property
    def master(self) -> int:
        """Return the LID of the master according to the victim's port."""
        return int(PortInfo.master_sm_lid.get(self.truth(SmpAttr.PORT_INFO, self.lids[self.victim])))


def keys_of(s: Stage, host: str) -> list[int]:
    """Return the first block of the host's P_Key table."""
    return [int(k) for k in PKeyTable.pkey.get(s.truth(SmpAttr.PKEY_TABLE, s.lids[host]))]


def shared_key(s: Stage) -> int:
    """Return a P_Key of the victim with which the attacker is a full member, preferably not the default P_Key; 0 if
    there is none.
    """
    mine = keys_of(s, s.attacker)
    shared = [k for k in keys_of(s, s.victim) if k and (k | FULL) in mine]
    return min(shared, key=lambda key: key & BASE == BASE, default=0)


def wanted_key(s: Stage) -> int:
    """Return a P_Key of the victim (without the membership bit) with which the attacker is not a full member,
    preferably not the default P_Key; 0 if there is none.
    """
    mine = keys_of(s, s.attacker)
    lacking = [k & BASE for k in keys_of(s, s.victim) if k & BASE and (k | FULL) not in mine]
    return min(lacking, key=lambda base: base == BASE, default=0)
