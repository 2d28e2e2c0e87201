"""Requests to the SA of a manager in the same process, like those that hosts send. They get the SLs
of path records (IBA 15.2.5.16: from engine, QoS policy and partition), and create multicast groups.
Members join these groups, so that the manager writes the switches' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, JoinState, MCMemberRecord, PathRecord, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch

if TYPE_CHECKING:
    from softib.scenario.bring_up import BringUp
    from softib.sim.messages import Messages, MulticastGroup

__all__ = ["NO_RECORD", "join_group", "joined_groups", "path_record_sls"]

NO_RECORD = -1
AT_ONCE = 8192
"""Maximum number of path records that are requested together."""
PREFIX = 0xFE80000000000000
MGID_PREFIX = 0xFF12_601B_FFFF_0000
"""Prefix of MGIDs: link-local, transient groups of the default partition (IBA 4.1.1, in the form of
RFC 4391)."""
SA_CLASS_VERSION, SA_QP, DEFAULT_PKEY = 2, 1, 0xFFFF


def path_record_sls(up: BringUp, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the SL (int16) of the path record from each end port ``source`` (rows of ports) to
    ``target``. It is :data:`NO_RECORD` if there is no record, because the ports have no partition
    in common or no route exists."""
    sls = np.full(len(source), NO_RECORD, np.int16)
    for begin in range(0, len(source), AT_ONCE):
        part = slice(begin, min(begin + AT_ONCE, len(source)))
        records = PathRecord.zeros(len(source[part]))
        PathRecord.slid.set(records, up.fabric.lid[source[part]])
        PathRecord.dlid.set(records, up.fabric.lid[target[part]])
        replies = _ask(up, source[part], SaMethod.GET, PathRecord, ("slid", "dlid"), records)
        good = replies[SaHeader.status.get(replies) == 0]
        row = begin + SaHeader.tid.get(good).astype(np.int64) - 1
        sls[row] = PathRecord.sl.get(good[:, SA_DATA:][:, : PathRecord.size])
    return sls


def join_group(up: BringUp, number: int, members: Sequence[int], senders: Sequence[int] = (), sl: int = 0) -> int:
    """Join ``members`` (ports) to group ``number`` as full members, and ``senders`` as send-only
    members, with MCMemberRecord requests. Return the MLID. The manager writes the fabric's
    multicast tables. Raises :class:`InputError` if the SA rejects a request."""
    mgid = np.array([MGID_PREFIX, number], np.uint64)
    mlid = 0
    levels = {"qkey": 0x1234, "pkey": DEFAULT_PKEY, "sl": sl, "flow_label": 0, "tclass": 0}
    for at, port in enumerate([*members, *senders]):
        state = int(JoinState.FULL if at < len(members) else JoinState.SEND_ONLY)
        port_gid = np.array([PREFIX, int(up.fabric.port_guid[port])], np.uint64)
        fields = {"mgid": mgid, "port_gid": port_gid, "join_state": state, **(levels if at == 0 else {})}
        record = MCMemberRecord.pack(**fields)[None, :]
        reply = _ask(up, np.array([port]), SaMethod.SET, MCMemberRecord, tuple(fields), record)[-1]
        status = int(SaHeader.status.get(reply))
        if status:
            name = up.fabric.node_name(int(up.fabric.port_node[port]))
            raise InputError(
                f"the subnet administrator refuses {name} in multicast group {number}: status {status:#06x}"
            )
        mlid = int(MCMemberRecord.mlid.get(reply[SA_DATA:]))
    return mlid


def joined_groups(up: BringUp, ends: np.ndarray, messages: Messages) -> tuple[MulticastGroup, ...]:
    """Return the groups of ``messages`` with their MLIDs, after members and senders (rows of ``ends``)
    have joined."""
    groups = []
    for n, group in enumerate(messages.groups, 1):
        rows = messages.group == n
        senders = np.setdiff1d(messages.src[rows], group.members)
        sl = max(int(messages.sl[rows].max(initial=0)), 0)
        mlid = join_group(up, n, ends[group.members].tolist(), ends[senders].tolist(), sl)
        groups.append(replace(group, mlid=mlid))
    return tuple(groups)


def _ask(
    up: BringUp, ports: np.ndarray, method: SaMethod, record: Any, components: tuple[str, ...], data: np.ndarray
) -> np.ndarray:
    """Send a request of each of ``ports`` to the manager, and the manager's MADs to the agents,
    until it is idle. ``data`` uint8[n, bytes of ``record``] holds ``components``. Returns the
    answers (uint8[n, 256]); request ``i`` has TransactionID ``i + 1``."""
    head = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=SA_CLASS_VERSION,
        method=int(method),
        attr_id=record.attr,
        comp_mask=mask_of(record, *components),
    )
    inbox = MadBatch.zeros(len(ports))
    inbox.mad[:, : len(head)] = head
    SaHeader.tid.set(inbox.mad, np.arange(1, len(ports) + 1, dtype=np.uint64))
    inbox.mad[:, SA_DATA : SA_DATA + data.shape[1]] = data
    lid = up.fabric.lid
    inbox.slid[:], inbox.dlid[:], inbox.dqp[:], inbox.sqp[:] = lid[ports], lid[up.port], SA_QP, SA_QP
    return up.to_administrator(inbox)
