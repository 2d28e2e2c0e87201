"""Mutated MADs by the thousand, derived from the declared structures: sound requests with wrong parts, and noise.

One batch is of one attribute, so that what it may write is known. Nothing here asks the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.iba import cc, notice, perf, perf_optional, smp
from softib.iba.structure import Structure
from softib.iba.vendor import ar, mlnx, sharp, vports
from softib.mad.batch import MadBatch

LID, DR, PERF, CC, VENDOR, SHARP, SA = 0x01, 0x81, 0x04, 0x21, 0x0A, 0x0B, 0x03
EDGES = np.array([0, 1, 2, 3, 4, 7, 8, 31, 32, 36, 64, 127, 128, 254, 255], np.int64)


@dataclass(frozen=True)
class Declared:
    """An attribute of a class: where its data begin, and how they are laid out (None: nobody knows)."""

    klass: int
    attr: int
    structure: type[Structure] | None
    at: int = 64

    def __str__(self) -> str:
        return f"{self.klass:#04x}/{self.attr:#06x}"


def _declared() -> list[Declared]:
    found = []
    for module, klass, at in (
        (smp, LID, 64),
        (ar, LID, 64),
        (vports, LID, 64),
        (sharp, SHARP, 64),
        (notice, LID, 64),
        (notice, PERF, 64),
        (perf, PERF, 64),
        (perf_optional, PERF, 64),
        (cc, CC, 64),
        (mlnx, VENDOR, mlnx.VENDOR_DATA),
    ):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Structure) and value.attr is not None:
                start = cc.CC_LOG_AT if klass == CC and value.size > 192 else at
                found.append(Declared(klass, value.attr, value, start))
                if klass == LID:
                    found.append(Declared(DR, value.attr, value, at))
    for klass in (LID, DR, PERF, CC, VENDOR, SHARP, SA, 0x06, 0x09, 0x32, 0x00, 0xFF):
        found += [Declared(klass, attr, None) for attr in (0x00, 0x01, 0x1A, 0x38, 0x99, 0xFF91, 0xFFFF)]
    return found


DECLARED = _declared()


class Mutants:
    """Batches that leave ``sender`` (a port row) of ``fabric``."""

    def __init__(self, fabric: Fabric, sender: int, rng: np.random.Generator):
        self.fabric, self.sender, self.rng = fabric, sender, rng
        self.path, self.hops, self.reached = routes(fabric, sender)

    def batch(self, n: int, what: Declared, sets: float = 0.5) -> MadBatch:
        """``n`` mutants of the attribute ``what``, a share ``sets`` of them writes."""
        rng, f = self.rng, self.fabric
        batch = MadBatch.zeros(n)
        m = batch.mad
        node = rng.choice(self.reached, n)
        m[:, 64:] = rng.integers(0, 256, (n, 192), np.uint8)
        if what.structure is not None:
            self._fill(m[:, what.at : what.at + what.structure.size], what.structure, node)
        m[:, 0], m[:, 1], m[:, 2] = 1, what.klass, 2 if what.klass in (CC, SA) else 1
        m[:, 3] = np.where(rng.random(n) < sets, 2, 1)
        put(m, 8, 8, np.arange(n, dtype=np.uint64) | np.uint64(int(rng.integers(0, 1 << 31)) << 32))
        put(m, 16, 2, np.full(n, what.attr))
        put(m, 20, 4, self._modifiers(n, node))
        if what.klass == DR:
            m[:, 32:36] = 255
            m[:, 128:192], m[:, 7] = self.path[node], self.hops[node]
            m[:, 192:] = 0
            batch.dlid[:] = 0xFFFF
        else:
            lids = f.lid[f.end_ports()]
            batch.dlid[:] = rng.choice(lids, n)
        self._spoil(batch, what)
        return batch

    def _fill(self, data: np.ndarray, structure: type[Structure], node: np.ndarray) -> None:
        """A third what the device reads now with a few fields changed, a third edges, a third noise."""
        rng, f, n = self.rng, self.fabric, len(data)
        kind = rng.integers(0, 3, n)
        true = kind == 0
        if structure is smp.PortInfo:
            port = f.node_base[node] + rng.integers(0, 2, n) * f.node_nports[node]
            data[true] = f.port_info[np.maximum(port, 0)][true]
        elif structure is smp.SwitchInfo:
            data[true] = f.switch_info[np.maximum(f.switch_of_node[node], 0)][true]
        share = np.where(true, 0.06, np.where(kind == 1, 0.8, 0.1))
        for field in structure.fields.values():
            if field.is_text or field.count > 1:
                continue
            draw = rng.random(n)
            for way, value in enumerate((0, field.mask, None, None)):
                rows = np.flatnonzero((draw >= share * way / 4) & (draw < share * (way + 1) / 4))
                if not len(rows):
                    continue
                most = min(field.mask, 9 if way == 2 else field.mask)
                field.set(
                    data,
                    rng.integers(0, most, len(rows), np.uint64, endpoint=True)
                    if value is None
                    else np.full(len(rows), value, np.uint64),
                    rows,
                )

    def _modifiers(self, n: int, node: np.ndarray) -> np.ndarray:
        """Numbers of ports and blocks alone and in both halves, edges, and noise."""
        rng = self.rng
        port = rng.integers(0, self.fabric.node_nports[node].astype(np.int64) + 2)
        small, edge = rng.integers(0, 5, n), rng.choice(EDGES, n)
        high = rng.integers(0, 8, n)
        return np.choose(
            rng.integers(0, 9, n),
            [
                np.zeros(n, np.int64),
                small,
                port,
                edge,
                high << 16 | port,
                port << 16 | small,
                1 << 31 | port,
                rng.integers(0, 16, n) << 28 | small,
                rng.integers(0, 1 << 32, n),
            ],
        )

    def _spoil(self, batch: MadBatch, what: Declared) -> None:
        """Wrong heads here and there, repeated MADs, addresses beyond every range."""
        rng, m, n = self.rng, batch.mad, len(batch.mad)

        def some(share: float) -> np.ndarray:
            return np.flatnonzero(rng.random(n) < share)

        for at, share in ((0, 0.005), (2, 0.01), (3, 0.02), (4, 0.01), (5, 0.01), (6, 0.03), (7, 0.03)):
            rows = some(share)
            m[rows, at] = rng.integers(0, 256, len(rows))
        rows = some(0.02)
        m[rows, 7] = rng.choice([0, 1, 62, 63, 64, 65, 255], len(rows))
        rows = some(0.03)
        m[rows, 129 + rng.integers(0, 8, len(rows))] = rng.integers(0, 256, len(rows))
        rows = some(0.05)
        if what.klass in (LID, DR, CC):
            m[rows, 24:32] = rng.integers(0, 256, (len(rows), 8))
        else:
            m[rows, 24:36] = rng.integers(0, 256, (len(rows), 12))  # the header of RMPP
        rows = some(0.02)
        m[rows, 32:36] = rng.integers(0, 256, (len(rows), 4))
        rows = some(0.05)
        batch.dlid[rows] = rng.choice([0, 1, 0xBFFF, 0xC000, 0xFFFE, 0xFFFF, int(rng.integers(0, 1 << 16))], len(rows))
        batch.pkey_index[some(0.02)] = rng.integers(0, 1 << 16)
        batch.sl[some(0.02)] = rng.integers(0, 1 << 16)
        rows = some(0.01)
        m[rows] = m[np.maximum(rows - 1, 0)]
        rows = some(0.01)
        m[rows] = rng.integers(0, 256, (len(rows), 256))


def put(m: np.ndarray, at: int, octets: int, values: np.ndarray) -> None:
    """Big-endian ``values`` into columns of ``m``."""
    for i in range(octets):
        m[:, at + octets - 1 - i] = (values.astype(np.uint64) >> np.uint64(8 * i)).astype(np.uint8)


def get(m: np.ndarray, at: int, octets: int) -> np.ndarray:
    """The big-endian number in columns of ``m``."""
    out = np.zeros(len(m), np.uint64)
    for i in range(octets):
        out = out << np.uint64(8) | m[:, at + i].astype(np.uint64)
    return out


def routes(f: Fabric, sender: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial path (uint8[nodes, 64]), hops of a directed route from ``sender`` to each node, and the nodes reached."""
    path, hops = np.zeros((f.sizes.nodes, 64), np.uint8), np.full(f.sizes.nodes, -1)
    start = int(f.port_node[sender])
    hops[start], queue = 0, [start]
    for node in queue:
        ports = [sender] if hops[node] == 0 and not f.is_switch[node] else list(f.ports_of(node))
        for port in ports if f.is_switch[node] or hops[node] == 0 else []:
            peer = int(f.port_peer[port])
            far = int(f.port_node[peer]) if peer >= 0 else -1
            if far >= 0 and hops[far] < 0 and hops[node] < 60:
                hops[far] = hops[node] + 1
                path[far] = path[node]
                path[far, hops[far]] = f.port_num[port]
                queue.append(far)
    return path, np.maximum(hops, 0).astype(np.uint8), np.array(queue)


def walk(f: Fabric, sender: int, m: np.ndarray) -> np.ndarray:
    """Port by which each directed SMP enters its destination (IBA 14.2.2), -1 = lost: hop by hop over cables that are up."""
    up = (f.port_info[:, smp.PortInfo.port_phys_state.byte] >> 4 == 5) & (f.port_peer >= 0)
    up &= up[np.maximum(f.port_peer, 0)]
    count = m[:, 7].astype(int)
    at = np.where(count <= 63, sender, -1)
    for hop in range(1, int(count.max(initial=0)) + 1):
        on = np.flatnonzero((at >= 0) & (count >= hop))
        node, out = f.port_node[at[on]], m[on, 128 + min(hop, 63)].astype(int)
        legal = (out >= 1) & (out <= f.node_nports[node])
        legal &= f.is_switch[node] | ((hop == 1) & (out == f.port_num[sender]))
        port = np.where(legal, f.node_base[node] + out, 0)
        at[on] = np.where(legal & up[port], f.port_peer[port], -1)
    return at
