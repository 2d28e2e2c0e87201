"""Kernels of the subnet manager: they follow paths through forwarding tables, write PathRecords,
and order the changes of tables."""

import numpy as np

from softib.iba.sa_records import PathRecord
from softib.jit import kernel, table

Hops = table("Hops", "lft switch_of_node node_base node_nports port_node port_peer mtu rank")
"""Tables and cables. ``lft`` is uint8[switches, LIDs]. ``mtu`` and ``rank`` uint8[ports] are the
MTU and rate capabilities of each port."""
PathFields = table("PathFields", "source_guid target_guid slid dlid pkey sl mtu rate life")
"""Fields of PathRecords: GUIDs are uint64, the others int64."""

MAX_SWITCHES = 64
DGID_AT, SGID_AT, DLID_AT, SLID_AT = (getattr(PathRecord, f).byte for f in ("dgid", "sgid", "dlid", "slid"))
REVERSIBLE_AT, PKEY_AT = PathRecord.reversible.byte, PathRecord.pkey.byte
SL_AT = PathRecord.qos_class.byte + 1
"""Byte that contains the end of QosClass, and the SL in its lower half."""
MTU_AT, RATE_AT, LIFE_AT = (getattr(PathRecord, f).byte for f in ("mtu", "rate", "packet_life_time"))
REVERSIBLE, EXACTLY = 0x80, 0x80
"""REVERSIBLE is bit 7 of its byte; EXACTLY is selector 2 in bits 7 and 6 (IBA 15.2.5.16)."""


@kernel(_nrt=False)
def walk(t, source, target, dlid, hops, out_mtu, out_rank):
    """Follow ``dlid[i]`` from port ``source[i]`` to port ``target[i]`` through the tables ``t`` (:data:`Hops`).

    Out: ``hops`` int16 (number of switches passed; -1 if the tables lead elsewhere, end or loop),
    and the smallest MTU and rate on the path, ``out_mtu`` and ``out_rank``.
    """
    lft, switch_of_node, node_base, node_nports = t.lft, t.switch_of_node, t.node_base, t.node_nports
    port_node, port_peer, mtu, rank = t.port_node, t.port_peer, t.mtu, t.rank
    n_lids = lft.shape[1]
    for i in range(len(source)):
        p, d = source[i], target[i]
        m, r = min(mtu[p], mtu[d]), min(rank[p], rank[d])
        hops[i] = -1
        if p == d:
            hops[i], out_mtu[i], out_rank[i] = 0, m, r
            continue
        node = port_node[p]
        if switch_of_node[node] < 0:
            q = port_peer[p]
            if q < 0:
                continue
            m, r = min(m, mtu[q]), min(r, rank[q])
            if q == d:
                hops[i], out_mtu[i], out_rank[i] = 0, m, r
                continue
            node = port_node[q]
        for h in range(1, MAX_SWITCHES + 1):
            s = switch_of_node[node]
            if s < 0:
                break
            if node_base[node] == d:  # port 0 of this switch
                hops[i], out_mtu[i], out_rank[i] = h, m, r
                break
            if dlid[i] >= n_lids:
                break
            out = lft[s, dlid[i]]
            if out == 0 or out > node_nports[node]:
                break
            p = node_base[node] + out
            q = port_peer[p]
            if q < 0:
                break
            m, r = min(m, min(mtu[p], mtu[q])), min(r, min(rank[p], rank[q]))
            if q == d:
                hops[i], out_mtu[i], out_rank[i] = h, m, r
                break
            node = port_node[q]


@kernel(_nrt=False)
def write_paths(prefix, fields, out):
    """Write :data:`PathFields` into PathRecords ``out`` (uint8[n, 64], zeros). Paths are
    reversible, and every selector is "exactly" (IBA 15.2.5.16)."""
    source_guid, target_guid, slid, dlid = fields.source_guid, fields.target_guid, fields.slid, fields.dlid
    pkey, sl, mtu, rate, life = fields.pkey, fields.sl, fields.mtu, fields.rate, fields.life
    for i in range(len(out)):
        for b in range(8):
            shift = np.uint64(56 - 8 * b)
            out[i, DGID_AT + b] = out[i, SGID_AT + b] = (prefix >> shift) & np.uint64(255)
            out[i, DGID_AT + 8 + b] = (target_guid[i] >> shift) & np.uint64(255)
            out[i, SGID_AT + 8 + b] = (source_guid[i] >> shift) & np.uint64(255)
        out[i, DLID_AT], out[i, DLID_AT + 1] = dlid[i] >> 8, dlid[i] & 255
        out[i, SLID_AT], out[i, SLID_AT + 1] = slid[i] >> 8, slid[i] & 255
        out[i, REVERSIBLE_AT] = REVERSIBLE
        out[i, PKEY_AT], out[i, PKEY_AT + 1] = (pkey[i] >> 8) & 255, pkey[i] & 255
        out[i, SL_AT] = (out[i, SL_AT] & 0xF0) | (sl[i] & 15)
        out[i, MTU_AT], out[i, RATE_AT], out[i, LIFE_AT] = EXACTLY | mtu[i], EXACTLY | rate[i], EXACTLY | life[i]


@kernel
def rounds(old, new, next_switch, switch, lid, out):
    """Count into ``out[i]`` the switches on the new path from ``switch[i]`` on (including
    ``switch[i]``) whose entry for ``lid[i]`` changes.

    ``old``, ``new`` uint8[switches, LIDs]; ``next_switch`` int32[switches, 256]: the switch at the
    other end of a port, -1 if there is none. A new path that never ends counts one step for each
    switch.
    """
    n = new.shape[0]
    for i in range(switch.shape[0]):
        s, d, count = switch[i], lid[i], 1
        for _ in range(n):
            s = next_switch[s, new[s, d]]
            if s < 0:
                break
            if old[s, d] != new[s, d]:
                count += 1
        out[i] = min(count, 65535)
