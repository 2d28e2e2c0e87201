"""Queries the subnet administrator (SA) of a running fabric, as a program on one of its hosts does: for tables of
records, and for the SLs of one path, some paths or all paths (IBA 15.2.5.16).

The master answers: the daemon's manager or a stock one. Only MADs are sent, through the same socket as
``libsoftib-umad.so`` uses; RMPP messages arrive whole.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from softib.errors import PeerError, SoftibError
from softib.fabric.node_finder import default_port
from softib.fabric.subnets import subnet_of
from softib.iba.constants import MAD_SIZE, CapMask, MgmtClass
from softib.iba.sa import SA_DATA, PathRecord, SaHeader, SaMethod, mask_of
from softib.iba.smp import PortInfo
from softib.iba.structure import Structure
from softib.live.control import Attached, attach
from softib.live.instances import Instance
from softib.live.umad.wire import HEAD_SIZE, MESSAGE_SIZE, constant, types
from softib.live.umad_client.fabric_port import request
from softib.plural import counted, plural
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import NO_PATH

__all__ = [
    "MOST_PAIRS",
    "MOST_RECORDS",
    "NO_RECORD",
    "PATIENCE_S",
    "SaTables",
    "manager_of",
    "pair_sls",
    "path_sl",
    "path_sls",
]

WINDOW = 8
"""Number of queries that are outstanding at the same time: enough to keep the SA busy, but few enough that none times
out."""
GETS = 64
"""The same for queries that return one record each: their answers need no RMPP window."""
TIMEOUT_MS, RETRIES = 10_000, 2
GSI_QKEY = 0x80010000
SA_HEADER = 20
"""Size of the SA header in bytes; PayloadLength includes it."""
CLASS_VERSION = 2


class SaTables:
    """An open umad device, with one agent, of the host in ``attached`` (the daemon's reply to ``attach``).

    ``lid`` and ``sl`` are those of the subnet manager, from the host's PortInfo. A context
    manager. Raises :class:`PeerError` if the device cannot be opened.
    """

    def __init__(self, attached: Attached, lid: int, sl: int = 0, patience_s: float = 120.0):
        self.lid, self.sl, self.until = lid, sl, time.monotonic() + patience_s
        server, view = attached.env["SOFTIB_UMAD"], attached.view.name
        self._serial = 0
        self.sock, handle = request(server, op=constant("OPEN"), view=view.encode(), path=b"0")
        sock, self.agent = request(
            server,
            op=constant("REGISTER"),
            handle=handle,
            qpn=1,
            mgmt_class=MgmtClass.SUBN_ADM,
            mgmt_class_version=CLASS_VERSION,
            rmpp_version=1,
        )
        sock.close()

    def __enter__(self) -> SaTables:
        return self

    def __exit__(self, *why: object) -> None:
        self.sock.close()

    def tables(
        self, record: type[Structure], queries: Sequence[dict[str, Any]], *, one: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the result of SubnAdmGetTable for each query (component → value): the query's number, and its records
        as uint8[records, record.size]. Results come in the order of arrival. ``one``: use SubnAdmGet, for queries with
        at most one record.

        Raises :class:`PeerError` if the SA refuses a query, does not answer, or exceeds the time limit.
        """
        method, window = (SaMethod.GET, GETS) if one else (SaMethod.GET_TABLE, WINDOW)
        waiting: dict[int, int] = {}
        rest = iter(enumerate(queries))
        while True:
            while len(waiting) < window and (query := next(rest, None)) is not None:
                waiting[self._send(record, query[1], method)] = query[0]
            if not waiting:
                return
            message = self._receive()
            number = waiting.pop(int.from_bytes(message[12:16], "big"), None)
            if number is not None:
                yield number, _records(message, record)

    def _send(self, record: type[Structure], fields: dict[str, Any], method: SaMethod) -> int:
        self._serial += 1
        head = np.zeros(1, types()["softib_umad_head"])
        head["id"], head["timeout_ms"], head["retries"], head["length"] = self.agent, TIMEOUT_MS, RETRIES, MESSAGE_SIZE
        head["qpn"], head["qkey"] = _big(1, 4), _big(GSI_QKEY, 4)
        head["lid"], head["sl"] = _big(self.lid, 2), self.sl
        mad = np.zeros(MAD_SIZE, np.uint8)
        mad[:SA_DATA] = SaHeader.pack(
            base_version=1,
            mgmt_class=MgmtClass.SUBN_ADM,
            class_version=CLASS_VERSION,
            method=method,
            tid=self._serial,
            attr_id=record.attr,
            rmpp_version=int(method == SaMethod.GET_TABLE),
            comp_mask=mask_of(record, *fields),
        )
        mad[SA_DATA : SA_DATA + record.size] = record.pack(**fields)
        self.sock.sendall(head.tobytes() + mad.tobytes())
        return self._serial

    def _receive(self) -> bytes:
        """Return the whole MAD of the next answer."""
        while True:
            left = self.until - time.monotonic()
            if left <= 0:
                raise PeerError("the subnet administration did not answer in time")
            self.sock.settimeout(left)
            try:
                message, fds, _, _ = socket.recv_fds(self.sock, MESSAGE_SIZE, 1)
            except TimeoutError:
                continue
            if len(message) < HEAD_SIZE:
                raise PeerError("the fabric went down")
            head = np.frombuffer(message[:HEAD_SIZE], types()["softib_umad_head"])[0]
            octets = int(head["length"]) - HEAD_SIZE
            if fds:
                with open(fds[0], "rb") as whole:  # the descriptor's offset is where the writer left it
                    return os.pread(whole.fileno(), octets, 0)
            if head["status"]:
                raise PeerError("the subnet administration does not answer")
            if octets <= MAD_SIZE:  # a longer message is sent again, whole
                return message[HEAD_SIZE:]


def _records(message: bytes, record: type[Structure]) -> np.ndarray:
    status = int.from_bytes(message[4:6], "big")
    if status == 0x0300:  # no record
        return np.zeros((0, record.size), np.uint8)
    if status:
        raise PeerError(f"the subnet administration rejects the request with status {status:#06x}")
    if message[3] == SaMethod.GET_RESP:
        return np.frombuffer(message[SA_DATA : SA_DATA + record.size], np.uint8).reshape(1, -1)
    step = 8 * int(SaHeader.attr_offset.get(np.frombuffer(message[:SA_DATA], np.uint8)))
    data = np.frombuffer(message[SA_DATA:], np.uint8)
    if step < record.size:
        return np.zeros((0, record.size), np.uint8)
    if len(message) == MAD_SIZE:  # one segment: PayloadLength is the length of its data (IBA 13.6.2.3)
        data = data[: max(int(SaHeader.length.get(np.frombuffer(message[:SA_DATA], np.uint8))) - SA_HEADER, 0)]
    return data[: len(data) // step * step].reshape(-1, step)[:, : record.size]


def _big(value: int, octets: int) -> int:
    """Return a value that is big endian in the kernel's ABI, as this machine's integer."""
    return int.from_bytes(value.to_bytes(octets, "big"), "little" if np.little_endian else "big")


MOST_PAIRS = 4_000_000
"""Maximum number of port pairs whose paths are queried: the pairs of 2,000 hosts. A PathRecord has 64 bytes, and OpenSM
creates 30,000 to 100,000 of them per second, so this takes a minute or two."""
PATIENCE_S = 180.0


def path_sls(
    instance: Instance,
    graph: SwitchGraph,
    progress: Callable[[str], None] = lambda text: None,
    port: int | None = None,
) -> np.ndarray:
    """Return uint8[ends, ends]: the SL from each CA port (row) to each end port (column) of ``graph``; :data:`NO_PATH`
    if the SA reports no path. There is one query per source (GetTable by SLID), several at the same time, on the subnet
    of port row ``port`` (None: of the default port).

    Raises :class:`PeerError` in one line if there are more than :data:`MOST_PAIRS` pairs, if there is no manager, if it
    does not answer within :data:`PATIENCE_S`, or if one pair has paths with several SLs (LMC), which a matrix cannot
    represent.
    """
    sources = np.flatnonzero(~graph.end_is_switch)
    pairs = len(sources) * len(graph.end_lid)
    if pairs > MOST_PAIRS:
        raise PeerError(
            f"{counted(pairs, 'path')} {plural(pairs, 'is', 'are')} too many to query (at most {MOST_PAIRS:,})"
        )
    attached, (lid, sl) = manager_of(instance, port)
    end_of = np.full(1 << 16, -1, np.int32)
    for offset in range(1 << int(graph.end_lmc.max(initial=0))):
        rows = np.flatnonzero(offset < (1 << graph.end_lmc.astype(np.int64)))
        end_of[graph.end_lid[rows].astype(np.int64) + offset] = rows
    sls = np.full((len(graph.end_lid), len(graph.end_lid)), NO_PATH, np.uint8)
    queries = [{"slid": int(graph.end_lid[s])} for s in sources]
    with SaTables(attached, lid, sl, PATIENCE_S) as sa:
        for done, (_, records) in enumerate(sa.tables(PathRecord, queries), 1):
            if done % 64 == 0:
                progress(f"paths of {done:,} of {counted(len(sources), 'port')}")
            a, b = end_of[PathRecord.slid.get(records)], end_of[PathRecord.dlid.get(records)]
            listed = (a >= 0) & (b >= 0)
            a, b, sl_of = a[listed], b[listed], np.asarray(PathRecord.sl.get(records), np.uint8)[listed]
            before = sls[a, b]
            sls[a, b] = sl_of
            if ((before != NO_PATH) & (before != sl_of)).any() or (sls[a, b] != sl_of).any():
                raise PeerError("the paths between two ports have different SLs")
    if (sls[sources] == NO_PATH).all():
        raise PeerError("the subnet administration reports no path")
    return sls


def manager_of(instance: Instance, port: int | None = None) -> tuple[Attached, tuple[int, int]]:
    """Attach to the subnet of port row ``port`` (None: of the default port), on the default port if that is in the
    subnet. Return the daemon's answer, and the LID and SL of the master from PortInfo.

    Raises :class:`PeerError` if there was no master, or if it has left (no port with its LID has IsSM set any longer),
    because queries would then time out."""
    from softib.live.shared_fabric import SharedFabric

    fabric = SharedFabric.snapshot(instance.shared_fabric)
    try:
        default = default_port(fabric)
    except SoftibError as error:
        raise PeerError(str(error)) from None
    subnet = subnet_of(fabric)
    here = default if port is None or subnet[port] == subnet[default] else port
    info = fabric.port_info[here]
    lid = int(PortInfo.master_sm_lid.get(info))
    if not lid:
        raise PeerError("the port has no subnet manager yet")
    is_sm = (PortInfo.cap_mask.get(fabric.port_info) & CapMask.IS_SM) > 0
    if not (is_sm & (fabric.lid == lid) & (subnet == subnet[here])).any():
        raise PeerError(f"the subnet manager at LID {lid} is no longer there")
    master = lid, int(PortInfo.master_sm_sl.get(info))
    if here == default:
        return attach(instance), master
    guid, portnum = int(fabric.node_guid[fabric.port_node[here]]), int(fabric.port_num[here])
    return attach(instance, f"{guid:#018x}", portnum or None), master


ONE_PATH_S = 10.0


def path_sl(instance: Instance, slid: int, dlid: int, port: int | None = None) -> int:
    """Return the SL of the path between two LIDs, queried on the subnet of port row ``port`` (None: of the default
    port). Raises :class:`PeerError` if no SA answers, or if it has no path."""
    attached, (lid, sl) = manager_of(instance, port)
    with SaTables(attached, lid, sl, ONE_PATH_S) as sa:
        for _, records in sa.tables(PathRecord, [{"slid": slid, "dlid": dlid}]):
            if len(records):
                return int(PathRecord.sl.get(records)[0])
    raise PeerError(f"the subnet administration reports no path from LID {slid} to LID {dlid}")


NO_RECORD = -1
RECORDS_A_QUERY = 400
"""Number of records in a long answer that take the same time as a query for one record: 0.74 us per record, compared
with 0.3 ms (docs/figures.md)."""
MOST_RECORDS = 40_000_000
"""Maximum number of records that are queried: all paths of 6,300 end ports, for which softib's manager needs half a
minute. OpenSM creates 30,000 to 100,000 per second, so with OpenSM :data:`PATIENCE_S` is the limit."""


def pair_sls(instance: Instance, slid: np.ndarray, dlid: np.ndarray, port: int | None = None) -> np.ndarray:
    """Return the SL (int16) of the path from each LID in ``slid`` to the corresponding LID in ``dlid``,
    :data:`NO_RECORD` if the SA has no record. They are queried on the subnet of port row ``port`` (None: of the default
    port). There is one query per source (SubnAdmGetTable by SLID) if that is less work than one per pair (SubnAdmGet).

    Raises :class:`PeerError` in one line if there is no manager, if it does not answer within :data:`PATIENCE_S`, if
    there are more than :data:`MOST_RECORDS` records, or if there is no path at all.
    """
    sources, row = np.unique(np.asarray(slid, np.int64), return_inverse=True)
    ends = int(np.asarray(dlid).max(initial=0))  # LIDs are dense, so each source has about this many records
    by_source = len(sources) * ends <= RECORDS_A_QUERY * len(slid)
    records = len(sources) * ends if by_source else RECORDS_A_QUERY * len(slid)
    if records > MOST_RECORDS:
        raise PeerError(
            f"{counted(len(slid), 'path')} of {counted(len(sources), 'port')} {plural(len(sources), 'is', 'are')} "
            f"too many to query"
        )
    sls = np.full(len(slid), NO_RECORD, np.int16)
    attached, (lid, sl) = manager_of(instance, port)
    with SaTables(attached, lid, sl, PATIENCE_S) as sa:
        for pairs, answer in _by_source(sa, sources, row) if by_source else _by_pair(sa, slid, dlid):
            sl_of = np.full(1 << 16, NO_RECORD, np.int16)
            sl_of[PathRecord.dlid.get(answer)] = PathRecord.sl.get(answer)
            sls[pairs] = sl_of[dlid[pairs]]
    if (sls == NO_RECORD).all():
        raise PeerError("the subnet administration reports no path")
    return sls


def _by_source(sa: SaTables, sources: np.ndarray, row: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of pairs, and the records of all paths from their one source."""
    order = np.argsort(row, kind="stable")
    first = np.searchsorted(row[order], np.arange(len(sources) + 1))
    for number, answer in sa.tables(PathRecord, [{"slid": int(s)} for s in sources]):
        yield order[first[number] : first[number + 1]], answer


def _by_pair(sa: SaTables, slid: np.ndarray, dlid: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    queries = [{"slid": int(a), "dlid": int(b)} for a, b in zip(slid, dlid, strict=True)]
    for number, answer in sa.tables(PathRecord, queries, one=True):
        yield np.array([number]), answer
