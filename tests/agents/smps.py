"""Requests and small fabrics for the tests of the agents."""

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.columns import COLUMNS
from softib.mad.batch import MadBatch

GET, SET = 1, 2


def requests(
    n, *, klass=0x81, method=GET, attr=0x11, mod=0, path=(), data=None, mkey=0, dlid=0xFFFF, version=1, cc_key=0
):
    """``n`` equal requests; scalars only, but ``data`` may be ``uint8[n, k]``. TIDs are 0x100, 0x101, …"""
    batch = MadBatch.zeros(n)
    m = batch.mad
    m[:, 0], m[:, 1], m[:, 2], m[:, 3], m[:, 7] = 1, klass, version, method, len(path)
    batch.tid[:] = np.arange(n) + 0x100
    m[:, 8:16] = batch.tid.astype(">u8").view(np.uint8).reshape(n, 8)
    m[:, 16:18] = list(attr.to_bytes(2, "big"))
    m[:, 20:24] = list(mod.to_bytes(4, "big"))
    if klass in (0x01, 0x81):
        m[:, 24:32] = list(mkey.to_bytes(8, "big"))
    if klass == 0x21:
        m[:, 24:32] = list(cc_key.to_bytes(8, "big"))
    if klass == 0x81:
        m[:, 32:36] = 0xFF
        m[:, 129 : 129 + len(path)] = path
    if data is not None:
        data = np.asarray(data, np.uint8)
        m[:, 64 : 64 + data.shape[-1]] = data
    batch.dlid[:] = dlid
    batch.dqp[:] = batch.sqp[:] = 0 if klass in (0x01, 0x81) else 1
    return batch


def ask(plane, port, now=0, whole=False, **kw):
    """One request: (status without the direction bit, the 192 octets of data), or None when nobody answers; with
    ``whole`` the MAD."""
    answers = plane.send(requests(1, **kw), port, now)
    if not len(answers):
        return None
    m = answers.mad[0]
    if whole:
        return m
    return (int(m[4]) << 8 | int(m[5])) & 0x7FFF, m[64:].copy()


def line(n=4, hosts=1, **kw):
    """Switches in a row: port 1… to hosts, port 7 to the next, port 8 from the one before. Returns fabric, switches, hosts."""
    b = FabricBuilder("line")
    s = b.nodes(n, 2, 8, desc=[f"s{i}" for i in range(n)], **kw)
    h = b.nodes(n * hosts, 1, 1, desc=[f"h{i}" for i in range(n * hosts)], **kw)
    for i in range(hosts):
        b.links(s, i + 1, h[i::hosts], 1)
    b.links(s[:-1], 7, s[1:], 8)
    return b.build(), s, h


def random_fabric(rng, switches=12, cas=16, radix=8):
    """Random cables between random ports; some ports stay empty, some CAs have two ports."""
    b = FabricBuilder("random")
    s = b.nodes(switches, 2, radix)
    nports = rng.integers(1, 3, cas)
    h = b.nodes(cas, 1, nports, desc=[f"Aggregation Node {i}" if i % 8 == 7 else f"h{i}" for i in range(cas)])
    ends = [(n, p) for n in s for p in range(1, radix + 1)]
    ends += [(n, p) for n, k in zip(h, nports, strict=True) for p in range(1, k + 1)]
    order = rng.permutation(len(ends))[: 2 * (len(ends) * 2 // 5)]
    a, z = order[0::2], order[1::2]
    pick = np.array(ends)
    b.links(pick[a, 0], pick[a, 1], pick[z, 0], pick[z, 1])
    return b.build()


def guard(fabric, room=4096):
    """Move every column between two zones of canaries; returns a function that says which zones were touched."""
    buffers = {}
    for c in COLUMNS:
        column = getattr(fabric, c.name)
        buf = np.full(column.nbytes + 2 * room, 0xA5, np.uint8)
        view = buf[room : room + column.nbytes].view(column.dtype).reshape(column.shape)
        view[...] = column
        setattr(fabric, c.name, view)
        buffers[c.name] = buf

    def touched():
        return [n for n, b in buffers.items() if (b[:room] != 0xA5).any() or (b[len(b) - room :] != 0xA5).any()]

    return touched


TRAFFIC = [f"port_{way}_{what}" for way in ("xmit", "rcv") for what in ("data", "pkts")]
TRAFFIC += ["port_unicast_xmit_pkts", "port_unicast_rcv_pkts"]


def snapshot(fabric):
    """Copies of all columns."""
    return {c.name: getattr(fabric, c.name).copy() for c in COLUMNS}


def changed(fabric, before):
    """Names of the columns that differ from the snapshot; the MADs' own traffic is no change."""

    def octets(name, column):
        if name == "counters":
            column = column.copy()
            for traffic in TRAFFIC:
                column[traffic] = 0
        return column.tobytes()

    return [n for n, old in before.items() if octets(n, getattr(fabric, n)) != octets(n, old)]
