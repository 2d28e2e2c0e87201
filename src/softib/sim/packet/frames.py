"""Packets of a run as the frames that cables carried, LRH to VCRC, for captures (``--pcap``).

The engine has no Q_Keys, R_Keys, GIDs and memory addresses, so frames contain fixed, invented ones; payload is zeros. A
queue pair of the engine has QP number ``FIRST_QPN + 2 * row`` at its source, and this number plus 1 at its destination.
PSNs begin at 0. A congestion notice is an acknowledgement with BECN (IBA annex A10). MADs have the bytes with which
they crossed the link, so a directed MAD shows the hop pointer and return path that it had there. PSNs of MADs are
invented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import DEFAULT_PKEY, GSI_QP, SMI_QP
from softib.iba.crc import ICRC_SIZE, VCRC_SIZE, icrc
from softib.iba.crc_kernels import vcrcs
from softib.iba.headers import (
    AETH,
    BTH,
    DETH,
    GRH,
    LNH,
    LRH,
    RETH,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
    Operation,
    Service,
    Syndrome,
)
from softib.iba.mad_packets import mad_packets
from softib.iba.pcap import INBOUND, OUTBOUND, pcapng_head, pcapng_records
from softib.sim.messages import Opcode, Transport
from softib.sim.packet import constants
from softib.sim.packet.options import RNR_TIMER_US
from softib.whole_files import write_file

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from softib.fabric.model import Fabric
    from softib.sim.packet.log import PacketLog

__all__ = ["FIRST_QPN", "Tap", "frames", "tap", "write_capture"]

FIRST_QPN = 16
QKEY = 0x11111111
MULTICAST_QPN = 0xFFFFFF
"""Destination of all packets for a multicast group (IBA chapter 10, multicast)."""
LINK_LOCAL, MGID_PREFIX = 0xFE80_0000_0000_0000, 0xFF12_601B_FFFF_0000
BTH_NEXT = 0x1B
"""GRH.NxtHdr of a packet with a BTH (IBA chapter 8)."""
MASK24 = 0xFFFFFF
PS_PER_NS, PS_PER_US = 1000, 1_000_000
BATCH = 20_000
"""Number of frames built at a time."""
BASE = np.array([Operation.WRITE_FIRST, Operation.SEND_FIRST, Operation.READ_REQUEST, Operation.FETCH_ADD], np.int64)
"""By :class:`~softib.sim.messages.Opcode`: BTH opcode of the first packet of its request."""
SERVICES = np.array([Service.RC, Service.UC, Service.UD], np.int64)
"""Service of each :class:`~softib.sim.messages.Transport`."""
WITH_IMM = (Operation.WRITE_LAST_WITH_IMM, Operation.WRITE_ONLY_WITH_IMM)
WITH_RETH = (Operation.WRITE_FIRST, Operation.WRITE_ONLY, Operation.WRITE_ONLY_WITH_IMM, Operation.READ_REQUEST)
WITH_AETH = (
    Operation.READ_RESPONSE_FIRST,
    Operation.READ_RESPONSE_LAST,
    Operation.READ_RESPONSE_ONLY,
    Operation.ACKNOWLEDGE,
    Operation.ATOMIC_ACKNOWLEDGE,
)


@dataclass(frozen=True)
class Tap:
    """Packets that passed the captured ports, in time order. ``row``: row of the log; ``ps``: time when the first byte
    passed; ``interface``: row of the ports; ``direction``: :data:`~softib.iba.pcap.INBOUND` or
    :data:`~softib.iba.pcap.OUTBOUND`."""

    row: np.ndarray
    ps: np.ndarray
    interface: np.ndarray
    direction: np.ndarray


def tap(log: PacketLog, ports: Sequence[int]) -> Tap:
    """Return the frames that ``ports`` sent and received, sorted by the time of their first byte."""
    parts: list[tuple[np.ndarray, ...]] = []
    for number, port in enumerate(ports):
        peer = int(log.net_port["peer"][port])
        for sender, direction in ((port, OUTBOUND), (peer, INBOUND)):
            rows = np.flatnonzero((log.kind == constants.LOG_SENT) & (log.port == sender))
            delay_ps = int(log.net_port["delay_ps"][sender]) if direction == INBOUND else 0
            parts.append((rows, log.start[rows] + delay_ps, np.full(len(rows), number), np.full(len(rows), direction)))
    columns = [np.concatenate(c) for c in zip(*parts, strict=True)]
    order = np.lexsort((columns[3], columns[2], columns[1]))
    return Tap(*(c[order] for c in columns))


def operations(log: PacketLog, rows: np.ndarray) -> np.ndarray:
    """Return BTH.opcode of packets (int64)."""
    m = log.message[log.message_of(rows)]
    kinds, psn = log.what[rows], log.psn[rows]
    first = psn == m["psn"]
    last = psn + 1 == m["psn"] + m["packets"]
    place = np.where(first & last, 4, np.where(first, 0, np.where(last, 2, 1)))
    atomic = m["opcode"] == Opcode.ATOMIC
    request = BASE[m["opcode"]] + ((m["immediate"] > 0) & last)  # with immediate: the next opcode
    place_of_response = np.where(place == 4, 3, place)
    response = np.where(atomic, int(Operation.ATOMIC_ACKNOWLEDGE), Operation.READ_RESPONSE_FIRST + place_of_response)
    service = SERVICES[log.qp["service"][log.stream[rows] >> 1]]
    send_only = (service == Service.UD) & (kinds == constants.DATA)
    by_kind = {constants.DATA: request + place, constants.READ_REQUEST: request, constants.READ_RESPONSE: response}
    chosen = np.full(len(rows), int(Operation.ACKNOWLEDGE))
    for kind, value in by_kind.items():
        chosen = np.where(kinds == kind, value, chosen)
    reliable = np.isin(kinds, (constants.ACK, constants.NAK, constants.CNP, constants.RNR_NAK))
    return np.asarray(np.where(reliable, 0, service) + np.where(send_only, int(Operation.SEND_ONLY), chosen))


def frames(log: PacketLog, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ``(rows, uint8[n, octets])``, one item for the packets of each opcode and size; MADs come last."""
    managed = np.flatnonzero(log.mad[rows] >= 0)
    if len(managed):
        plain = np.flatnonzero(log.mad[rows] < 0)
        for which, octets in _data_frames(log, rows[plain]):
            yield plain[which], octets
        yield managed, _mads(log, rows[managed])
    else:
        yield from _data_frames(log, rows)


def _mads(log: PacketLog, rows: np.ndarray) -> np.ndarray:
    """Return the frames of MADs, which are sent between QPs 0, or between QPs 1 (IBA chapter 13)."""
    smp = log.what[rows] == constants.SMP
    qp = np.where(smp, SMI_QP, GSI_QP)
    mads, slid, dlid = log.mads[log.mad[rows]], log.entered[rows], log.dlid[rows]
    return mad_packets(mads, slid, dlid, sl=log.sl[rows], pkey=DEFAULT_PKEY, sqp=qp, dqp=qp, vl=log.vl[rows])


def _data_frames(log: PacketLog, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    opcode = operations(log, rows)
    to_group = log.message[log.message_of(rows)]["group"] > 0
    key = to_group.astype(np.int64) << 24 | opcode << 16 | log.octets[rows]
    for value in np.unique(key).tolist():
        which = np.flatnonzero(key == value)
        yield which, _build(log, rows[which], value >> 16 & 0xFF, value & 0xFFFF)


def _build(log: PacketLog, rows: np.ndarray, opcode: int, octets: int) -> np.ndarray:
    n = len(rows)
    of = log.message_of(rows)
    m = log.message[of]
    heads = [_lrh(log, rows, m, octets)]
    if m["group"][0]:
        heads.append(_grh(log, rows, octets))
    heads.append(_bth(log, rows, m, opcode, octets))
    heads += _extended(log, rows, m, opcode)
    out = np.zeros((n, octets), np.uint8)
    head = np.concatenate([np.broadcast_to(h, (n, h.shape[-1])) for h in heads], axis=1)
    out[:, : head.shape[1]] = head
    end = octets - ICRC_SIZE - VCRC_SIZE
    for row in out:
        row[end:-VCRC_SIZE] = np.frombuffer(icrc(row[:end].tobytes()), np.uint8)
    vcrcs(out)
    return out


def _backward(log: PacketLog, rows: np.ndarray) -> np.ndarray:
    """Return whether the packet goes from the destination of the queue pair to its source. A
    congestion notice travels against its stream."""
    return (log.stream[rows] & 1).astype(bool) ^ (log.what[rows] == constants.CNP)


def _lrh(log: PacketLog, rows: np.ndarray, m: np.ndarray, octets: int) -> np.ndarray:
    q = log.stream[rows] >> 1
    slid = np.where(_backward(log, rows), m["lid"], log.qp["back_lid"][q])
    return LRH.pack(
        vl=log.vl[rows],
        sl=log.sl[rows],
        lnh=np.where(m["group"] > 0, int(LNH.GRH), int(LNH.BTH)),
        dlid=log.dlid[rows],
        pkt_len=(octets - VCRC_SIZE) // 4,
        slid=slid,
    )


def _grh(log: PacketLog, rows: np.ndarray, octets: int) -> np.ndarray:
    """Write the GRH of multicast packets (IBA chapter 10, multicast); its GIDs are derived from the LIDs."""
    slid = log.qp["back_lid"][log.stream[rows] >> 1]
    return GRH.pack(
        ip_ver=6,
        pay_len=octets - LRH.size - GRH.size - VCRC_SIZE,
        next_header=BTH_NEXT,
        hop_limit=1,
        sgid=np.stack([np.full(len(rows), LINK_LOCAL, np.uint64), slid.astype(np.uint64)], axis=1),
        dgid=np.stack([np.full(len(rows), MGID_PREFIX, np.uint64), log.dlid[rows].astype(np.uint64)], axis=1),
    )


def _bth(log: PacketLog, rows: np.ndarray, m: np.ndarray, opcode: int, octets: int) -> np.ndarray:
    flags, kinds = log.flags[rows], log.what[rows]
    payload = np.minimum(
        log.qp["payload"][m["qp"]],
        m["length"] - (log.psn[rows] - m["psn"]) * log.qp["payload"][m["qp"]],
    )
    carries = (kinds == constants.DATA) | ((kinds == constants.READ_RESPONSE) & (m["opcode"] == Opcode.READ))
    target = FIRST_QPN + 2 * (log.stream[rows] >> 1) + ~_backward(log, rows)
    target = np.where(m["group"] > 0, MULTICAST_QPN, target)
    return BTH.pack(
        opcode=opcode,
        pad_count=np.where(carries, -payload & 3, 0),
        pkey=DEFAULT_PKEY,
        fecn=(flags & constants.FECN) != 0,
        becn=kinds == constants.CNP,
        dest_qp=target & MASK24,
        ack_req=((flags & constants.ASKS_ACK) != 0) & (log.qp["service"][log.stream[rows] >> 1] == Transport.RC),
        psn=log.psn[rows] & MASK24,
    )


def _extended(log: PacketLog, rows: np.ndarray, m: np.ndarray, opcode: int) -> list[np.ndarray]:
    """Write the headers after BTH."""
    operation, headers = opcode & 31, []
    if opcode & 0xE0 == Service.UD:
        return [DETH.pack(qkey=QKEY, src_qp=(FIRST_QPN + 2 * (log.stream[rows] >> 1)) & MASK24)]
    key = 1 + m["qp"]
    if operation in WITH_RETH:
        headers.append(RETH.pack(va=0, rkey=key, dma_len=m["length"]))
    if operation in WITH_IMM:
        headers.append(ImmDt.pack(imm_data=m["qp"]))
    if operation == Operation.FETCH_ADD:
        headers.append(AtomicETH.pack(va=0, rkey=key, swap_data=1, cmp_data=0))
    if operation in WITH_AETH:
        headers.append(AETH.pack(syndrome=_syndromes(log, rows), msn=_msn(log, rows, m) & MASK24))
    if operation == Operation.ATOMIC_ACKNOWLEDGE:
        headers.append(AtomicAckETH.pack(orig_rem_data=np.zeros(len(rows), np.int64)))
    return headers


def _syndromes(log: PacketLog, rows: np.ndarray) -> np.ndarray:
    timer = RNR_TIMER_US.index(int(log.opt.rnr_ps) // PS_PER_US)
    syndromes = np.where(log.what[rows] == constants.NAK, int(Syndrome.NAK_PSN), int(Syndrome.ACK))
    return np.where(log.what[rows] == constants.RNR_NAK, int(Syndrome.RNR_NAK) + timer, syndromes)


def _msn(log: PacketLog, rows: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return the number of messages of the queue pair that the responder has completed (MSN)."""
    place = np.empty(len(log.order), np.int64)
    place[log.order] = np.arange(len(log.order))
    number = place[log.message_of(rows)] - log.qp["first_message"][m["qp"]]
    whole = log.psn[rows] + 1 >= m["psn"] + m["packets"]
    done = np.where(
        np.isin(log.what[rows], (constants.NAK, constants.RNR_NAK)),
        False,
        whole | (log.what[rows] == constants.READ_RESPONSE),
    )
    return np.asarray(number + done)


def write_capture(log: PacketLog, fabric: Fabric, ports: Sequence[int], path: str | os.PathLike[str]) -> int:
    """Write the frames that ``ports`` sent and received to a pcapng file, in which virtual time 0 is the start of 1970;
    return their number. Raises :class:`InputError` if the file cannot be written."""
    seen = tap(log, ports)

    def write(part: Path) -> None:
        with part.open("wb") as file:
            file.write(pcapng_head([fabric.port_name(int(p)) for p in ports]))
            for at in range(0, len(seen.row), BATCH):
                rows = slice(at, at + BATCH)
                packets = list(frames(log, seen.row[rows]))
                ns = seen.ps[rows] // PS_PER_NS
                file.write(pcapng_records(packets, ns, seen.interface[rows], seen.direction[rows]))

    write_file(path, write)
    return len(seen.row)
