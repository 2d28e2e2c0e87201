"""Partitions as text that fits into records: JSON, in pieces
(:mod:`softib.sm.replication.segments`)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from softib.sm.managers.partitions import Partition, PartitionGroup
from softib.sm.replication.segments import cut, joined

__all__ = ["pieces", "read"]


def pieces(partitions: Iterable[Partition]) -> list[bytes]:
    """At most 160 octets each."""
    plain = [
        [
            p.name,
            p.pkey,
            p.index0,
            p.ipoib,
            p.sl,
            p.members,
            [[g.mgid.hex(), g.rate, g.mtu, g.sl, g.scope, g.qkey, g.tclass, g.flow_label] for g in p.groups],
        ]
        for p in partitions
    ]
    return cut(json.dumps(plain, separators=(",", ":")).encode())


def read(found: list[bytes]) -> tuple[Partition, ...] | None:
    """Partitions of all pieces in order; None where there are none, or where one is missing or
    damaged."""
    text = joined(found)
    if text is None:
        return None
    try:
        plain = json.loads(text)
        return tuple(
            Partition(
                name,
                pkey,
                index0,
                ipoib,
                sl,
                [(who, bits) for who, bits in members],
                [PartitionGroup(bytes.fromhex(g[0]), *g[1:]) for g in groups],
            )
            for name, pkey, index0, ipoib, sl, members, groups in plain
        )
    except (ValueError, TypeError):
        return None
