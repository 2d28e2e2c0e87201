"""The registrations of user_mad agents. They determine which agent on a port receives a MAD, by the kernel's rules.

Sources: the kernel's ABI (Documentation/infiniband/user_mad.rst) and IBA 13.4.4 (class numbers),
13.6 (RMPP).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from softib.iba.constants import RESPONSE_BIT, VENDOR2_CLASSES, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT, VERSION_AT
from softib.live.umad_client.abi import CLASS_VERSION, MANAGES

__all__ = ["AGENTS", "MANAGERS_AGENTS", "Agent", "AgentTable", "has_rmpp"]

AGENTS = 32
VERSIONS = 8
SUBN_LID, SUBN_DR, SUBN_ADM, DEVICE_ADM, BIS = 0x01, 0x81, 0x03, 0x10, 0x12
CLASSES = 80
"""Agents can be registered for class numbers below this one, and for 0x81."""
VENDOR_OUI_AT = 37


def has_rmpp(mgmt_class: int) -> bool:
    """Return whether messages of this class may be longer than a MAD."""
    return mgmt_class in (SUBN_ADM, DEVICE_ADM, BIS) or mgmt_class in VENDOR2_CLASSES


@dataclass(frozen=True)
class Agent:
    """One registration. ``methods``: a bit mask of the methods of unsolicited MADs that it receives. ``kernel_rmpp``:
    it receives RMPP messages whole."""

    qpn: int
    mgmt_class: int
    version: int
    methods: int
    oui: int
    kernel_rmpp: bool

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether the agent accepts this unsolicited MAD."""
        klass, method = int(mad[CLASS_AT]), int(mad[METHOD_AT]) & ~RESPONSE_BIT
        if klass != self.mgmt_class or int(mad[VERSION_AT]) != self.version or not self.methods >> method & 1:
            return False
        return (
            klass not in VENDOR2_CLASSES
            or int.from_bytes(mad[VENDOR_OUI_AT : VENDOR_OUI_AT + 3].tobytes(), "big") == self.oui
        )

    def overlaps(self, other: Agent) -> bool:
        """Return whether both agents would accept the same MAD, which a port does not allow."""
        same = (self.mgmt_class, self.version, self.oui) == (other.mgmt_class, other.version, other.oui)
        return same and bool(self.methods & other.methods)


MANAGERS_AGENTS = tuple(
    Agent(int(klass == MgmtClass.SUBN_ADM), klass, CLASS_VERSION.get(klass, 1), methods, 0, klass == MgmtClass.SUBN_ADM)
    for klass, methods in MANAGES.items()
)
"""The agents that a subnet manager would register on a umad device."""


class AgentTable:
    """The agents of one open file, by number. ``columns``: the rows ``qp``, ``kernel_rmpp`` and ``known`` for the
    kernels, uint8[3, 32]."""

    def __init__(self) -> None:
        self.agents: dict[int, Agent] = {}
        self.columns = np.zeros((3, AGENTS), np.uint8)
        self.qp, self.kernel_rmpp, self.known = self.columns

    def add(self, agent: Agent, rmpp_version: int, others: Iterable[Agent]) -> tuple[int, int]:
        """Register a new agent; return (errno, number). ``others``: the agents of all files on the port."""
        smi = agent.mgmt_class in (SUBN_LID, SUBN_DR)
        if agent.qpn > 1 or (rmpp_version and not has_rmpp(agent.mgmt_class)):
            return errno.EINVAL, 0
        if agent.mgmt_class:
            served = agent.mgmt_class < CLASSES or agent.mgmt_class == SUBN_DR
            if not served or agent.version >= VERSIONS or smi != (agent.qpn == 0):
                return errno.EINVAL, 0
            if agent.mgmt_class in VENDOR2_CLASSES and not agent.oui:
                return errno.EINVAL, 0
            if any(agent.overlaps(other) for other in others):
                return errno.EINVAL, 0
        number = next((i for i in range(AGENTS) if i not in self.agents), None)
        if number is None:
            return errno.ENOMEM, 0
        self.agents[number] = agent
        self.qp[number], self.kernel_rmpp[number], self.known[number] = agent.qpn, agent.kernel_rmpp, 1
        return 0, number

    def remove(self, number: int) -> int:
        """Remove an agent; return an errno."""
        if self.agents.pop(number, None) is None:
            return errno.EINVAL
        self.known[number] = 0
        return 0

    def taker(self, mad: np.ndarray) -> int | None:
        """Return the number of the agent that takes this unsolicited MAD."""
        return next((n for n, agent in self.agents.items() if agent.takes(mad)), None)
