"""Multicast groups by the subnet administrator: members join as their hosts would, and the manager
writes the switches' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, JoinState, MCMemberRecord, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch

if TYPE_CHECKING:
    from softib.scenario.bring_up import BringUp
    from softib.sim.messages import Messages, MulticastGroup

__all__ = ["join_group", "joined_groups"]

PREFIX = 0xFE80000000000000
MGID_PREFIX = 0xFF12_601B_FFFF_0000
"""Link-local, transient group of the default partition (IBA 4.1.1, RFC 4391's form)."""
SA_CLASS_VERSION, SA_QP, DEFAULT_PKEY = 2, 1, 0xFFFF


def join_group(up: BringUp, number: int, members: Sequence[int], senders: Sequence[int] = (), sl: int = 0) -> int:
    """Join ``members`` (ports) to group ``number`` as full members and ``senders`` as send-only
    ones, by MCMemberRecord requests, and return the MLID. The manager writes the fabric's MFTs.
    Raises :class:`InputError` where the administrator refuses."""
    mgid = np.array([MGID_PREFIX, number], np.uint64)
    mlid = 0
    levels = {"qkey": 0x1234, "pkey": DEFAULT_PKEY, "sl": sl, "flow_label": 0, "tclass": 0}
    for at, port in enumerate([*members, *senders]):
        state = int(JoinState.FULL if at < len(members) else JoinState.SEND_ONLY)
        port_gid = np.array([PREFIX, int(up.fabric.port_guid[port])], np.uint64)
        fields = {"mgid": mgid, "port_gid": port_gid, "join_state": state, **(levels if at == 0 else {})}
        head = SaHeader.pack(
            base_version=1,
            mgmt_class=int(MgmtClass.SUBN_ADM),
            class_version=SA_CLASS_VERSION,
            method=int(SaMethod.SET),
            attr_id=MCMemberRecord.attr,
            tid=at + 1,
            comp_mask=mask_of(MCMemberRecord, *fields),
        )
        reply = _request(up, head.tobytes() + MCMemberRecord.pack(**fields).tobytes(), port)
        status = int(SaHeader.status.get(reply))
        if status:
            name = up.fabric.node_name(int(up.fabric.port_node[port]))
            raise InputError(
                f"the subnet administrator refuses {name} in multicast group {number}: status {status:#06x}"
            )
        mlid = int(MCMemberRecord.mlid.get(reply[SA_DATA:]))
    return mlid


def joined_groups(up: BringUp, ends: np.ndarray, made: Messages) -> tuple[MulticastGroup, ...]:
    """Return the groups of ``made`` with their MLIDs, after members and senders (rows of ``ends``)
    have joined."""
    groups = []
    for n, group in enumerate(made.groups, 1):
        rows = made.group == n
        senders = np.setdiff1d(made.src[rows], group.members)
        sl = max(int(made.sl[rows].max(initial=0)), 0)
        mlid = join_group(up, n, ends[group.members].tolist(), ends[senders].tolist(), sl)
        groups.append(replace(group, mlid=mlid))
    return tuple(groups)


def _request(up: BringUp, message: bytes, port: int) -> np.ndarray:
    """Carry one SA request of ``port`` to the manager, and its MADs to the agents, until it rests;
    returns the answer (uint8[256])."""
    inbox = MadBatch.zeros(1)
    inbox.mad[0, : len(message)] = np.frombuffer(message, np.uint8)
    inbox.slid[:], inbox.dlid[:], inbox.dqp[:], inbox.sqp[:] = up.fabric.lid[port], up.fabric.lid[up.port], SA_QP, SA_QP
    return np.asarray(up.to_administrator(inbox)[-1])
