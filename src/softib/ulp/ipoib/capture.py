"""Captures the datagrams and messages of a node's interfaces for Wireshark, as InfiniBand packets from LRH to VCRC
(``softib run --net --pcap FILE``)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.iba.crc import ICRC_SIZE
from softib.iba.headers import BTH, DETH, GRH, LNH, LRH, Operation, Service
from softib.iba.mad_packets import with_crcs
from softib.iba.pcap import PcapFile
from softib.ulp.ipoib.network import CONTROL, Network, ask

__all__ = ["Capture", "packet_of", "packets_of_message"]

UD_SEND_ONLY = int(Service.UD | Operation.SEND_ONLY)
PSN_MASK = 0xFFFFFF
WORD, GID_SIZE = 4, 16
IBA_TRANSPORT = 0x1B
"""Value of GRH.NxtHdr for an IBA transport header (IBA 8.3)."""
LONGEST = 1 << 17
BUFFER = 8 << 20
"""Size of the socket's receive buffer in bytes. It holds datagrams that arrive faster than the file is written."""


def packet_of(head: Any, payload: bytes) -> np.ndarray:
    """Return one datagram as an InfiniBand packet, uint8[size] (``softib_ipoib_datagram`` and its payload)."""
    pad = -len(payload) % WORD
    parts = [
        BTH.pack(opcode=UD_SEND_ONLY, pad_count=pad, pkey=head.pkey, dest_qp=head.destination_qp, psn=head.psn),
        DETH.pack(qkey=head.qkey, src_qp=head.source_qp),
        np.frombuffer(payload + bytes(pad), np.uint8),
    ]
    size = sum(map(len, parts)) + ICRC_SIZE
    if head.grh:
        grh = GRH.pack(ip_ver=6, pay_len=size, next_header=IBA_TRANSPORT)
        grh[-2 * GID_SIZE :] = np.frombuffer(head.source_gid + head.destination_gid, np.uint8)
        parts.insert(0, grh)
        size += GRH.size
    dwords, lnh = (LRH.size + size) // WORD, LNH.GRH if head.grh else LNH.BTH
    parts.insert(0, LRH.pack(sl=head.sl, lnh=int(lnh), dlid=head.destination_lid, slid=head.source_lid, pkt_len=dwords))
    return with_crcs(np.concatenate(parts))


def packets_of_message(head: Any, payload: bytes) -> list[np.ndarray]:
    """Return the packets of one message over an RC connection, divided by the path MTU: SEND First, Middle and
    Last, or Only (IBA 9.7.2)."""
    starts = range(0, len(payload), head.path_mtu)
    packets = []
    for n, start in enumerate(starts):
        part = payload[start : start + head.path_mtu]
        first, last = n == 0, n == len(starts) - 1
        if first:
            operation = Operation.SEND_ONLY if last else Operation.SEND_FIRST
        else:
            operation = Operation.SEND_LAST if last else Operation.SEND_MIDDLE
        bth = BTH.pack(
            opcode=int(Service.RC | operation),
            pad_count=-len(part) % WORD,
            pkey=head.pkey,
            dest_qp=head.destination_qp,
            ack_req=int(last),
            psn=(head.psn + n) & PSN_MASK,
        )
        packets.append(_local(head, [bth, np.frombuffer(part + bytes(-len(part) % WORD), np.uint8)]))
    return packets


def _local(head: Any, parts: list[np.ndarray]) -> np.ndarray:
    """Return a packet without a GRH: the LRH, ``parts``, and the CRCs."""
    size = LRH.size + sum(map(len, parts)) + ICRC_SIZE
    lrh = LRH.pack(sl=head.sl, lnh=int(LNH.BTH), dlid=head.destination_lid, slid=head.source_lid, pkt_len=size // WORD)
    return with_crcs(np.concatenate([lrh, *parts]))


class Capture:
    """Writes all packets that the interfaces of ``network`` send and receive to ``path``, until :meth:`close`.
    Raises :class:`InputError` if the file cannot be written."""

    def __init__(self, path: str | os.PathLike[str], network: Network):
        self._file, self._head = PcapFile(path), CONTROL.layout("softib_ipoib_datagram")
        self._network = network
        self._sock = network.sock.dup()
        self._sock.settimeout(None)
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.problem: InputError | None = None
        ask(self._sock, "CAPTURE")
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while True:
            try:
                message = self._sock.recv(LONGEST)
                if len(message) < self._head.size:
                    return
                head = self._head.unpack(message)
                payload = message[self._head.size :]
                for packet in packets_of_message(head, payload) if head.path_mtu else [packet_of(head, payload)]:
                    self._file.write(packet[None, :], head.ns)
            except InputError as error:
                self.problem = error
                return
            except OSError:
                return

    def close(self) -> None:
        """End the file. Raises :class:`InputError` if it could not be written."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._sock.close()
        if self.problem is not None:
            raise self.problem
        self._file.close()
