"""Multicast groups that our subnet manager made by joins, and datagrams for them."""

from __future__ import annotations

import numpy as np

from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.scenario.sa_requests import join_group
from softib.sim.messages import MulticastGroup, Opcode, Transport, messages


def grouped(members, senders, radix=8, levels=2):
    """A fat tree whose hosts ``members`` (rows of end ports) joined a group, and ``senders`` to send only."""
    up = bring_up(generate("fat-tree", radix=radix, levels=levels, generation="NDR"))
    ends = end_ports(up.fabric)
    mlid = join_group(up, 1, ends[members].tolist(), [int(ends[s]) for s in senders if s not in members])
    return up.fabric, ends, MulticastGroup(np.array(members), mlid)


def datagrams(group, sources, n, size=2048, **columns):
    src = np.repeat(sources, n)
    dst = np.where(src == group.members[0], group.members[1], group.members[0])
    return messages(
        src, dst, size, qp=src, transport=Transport.UD, opcode=Opcode.SEND, group=1, groups=[group], **columns
    )
