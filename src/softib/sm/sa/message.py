"""Requests and answers of subnet administration: their fields, their MADs, and the component mask
(IBA 15.2.1, 15.4.4, 13.6).

If an answer is longer than a MAD, the batch's ``payload`` holds the complete message, in the form
that a driver with RMPP expects; its first 256 bytes are also the row in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.iba.sa import COMPONENTS, RMPP_HEADER, SA_DATA, SA_DATA_OCTETS, RmppFlag, RmppType, SaHeader, SaMethod
from softib.iba.smp import METHOD_AT
from softib.iba.structure import Field, Structure
from softib.mad.batch import MadBatch
from softib.sm.sa.inventory import Need

__all__ = [
    "RESPONSE",
    "Answer",
    "Request",
    "fill",
    "fill_table",
    "matching",
    "reply_to",
    "selected_components",
    "short_reply",
]


@dataclass(frozen=True)
class Request:
    """``data`` uint8[≥200] is the record in the request; ``trusted``: the request has the SM_Key;
    ``lid`` and ``qp`` are the requester's; ``end`` is its row in the subnet (-1: unknown).
    ``now_ps`` is the time of arrival."""

    method: int
    attr: int
    modifier: int
    comp_mask: int
    data: np.ndarray
    trusted: bool
    lid: int
    qp: int
    end: int
    now_ps: int


@dataclass(frozen=True)
class Answer:
    """``records`` uint8[n, size] are the records of a table; the answer to a Get has one record.
    None: the answer is only a status.

    ``wait``: tables that must first be read from devices. The query is answered after that.
    """

    status: int = 0
    records: np.ndarray | None = None
    wait: Need | None = None


H = SaHeader
RESPONSE = {
    int(SaMethod.GET): int(SaMethod.GET_RESP),
    int(SaMethod.SET): int(SaMethod.GET_RESP),
    int(SaMethod.GET_TABLE): int(SaMethod.GET_TABLE_RESP),
    int(SaMethod.GET_MULTI): int(SaMethod.GET_MULTI_RESP),
    int(SaMethod.GET_TRACE_TABLE): int(SaMethod.GET_TABLE_RESP),
    int(SaMethod.DELETE): int(SaMethod.DELETE_RESP),
}
"""Method of the answer to a method."""
ANSWER = np.full(256, int(SaMethod.GET_RESP), np.uint8)
ANSWER[list(RESPONSE)] = list(RESPONSE.values())
STATUS = H.status.byte
CLASS_HEADER = SA_DATA - RMPP_HEADER - 12
"""Bytes between the RMPP header and the data; every segment's payload includes them."""


def reply_to(requests: MadBatch) -> MadBatch:
    """Return answers without content: addresses exchanged, method of the response, no RMPP, no
    SM_Key."""
    reply = requests[np.arange(len(requests))]
    reply.payload = None
    reply.dlid, reply.slid = requests.slid.copy(), requests.dlid.copy()
    reply.dqp, reply.sqp = requests.sqp.copy(), requests.dqp.copy()
    mad = reply.mad
    mad[:, METHOD_AT] = ANSWER[mad[:, METHOD_AT]]
    mad[:, STATUS : STATUS + 2] = 0
    mad[:, RMPP_HEADER : H.comp_mask.byte] = 0  # RMPP, SM_Key, AttributeOffset
    mad[:, SA_DATA:] = 0
    return reply


def short_reply(request: MadBatch, mad: bytes, record: bytes) -> MadBatch:
    """Return the answer to a single Get (``mad`` is its 256 bytes): status 0 and ``record``."""
    out = bytearray(MAD_SIZE)
    out[:RMPP_HEADER] = mad[:RMPP_HEADER]
    out[METHOD_AT] = SaMethod.GET_RESP
    out[STATUS : STATUS + 2] = bytes(2)
    out[H.attr_offset.byte + 1] = len(record) // 8
    out[H.comp_mask.byte : SA_DATA] = mad[H.comp_mask.byte : SA_DATA]
    out[SA_DATA : SA_DATA + len(record)] = record
    reply = np.frombuffer(out, np.uint8).reshape(1, MAD_SIZE)
    return MadBatch(
        mad=reply,
        dlid=request.slid.copy(),
        slid=request.dlid.copy(),
        dqp=request.sqp.copy(),
        sqp=request.dqp.copy(),
        sl=request.sl.copy(),
        pkey_index=request.pkey_index.copy(),
        tid=request.tid.copy(),
        status=request.status.copy(),
    )


def fill(mad: np.ndarray, status: int, record: np.ndarray | None = None) -> None:
    """Fill one answer (uint8[256]) with a status and, for a Get or a Set, its record."""
    H.status.set(mad, status)
    if record is not None:
        mad[SA_DATA : SA_DATA + len(record)] = record
        H.attr_offset.set(mad, len(record) // 8)


def fill_table(mad: np.ndarray, records: np.ndarray) -> bytes | None:
    """Fill one answer (uint8[256]) with a table (uint8[n, size]); return the whole message if it is
    longer than a MAD, otherwise None."""
    data = records.reshape(-1)
    segments = max(1, -(-len(data) // SA_DATA_OCTETS))
    H.attr_offset.set(mad, records.shape[1] // 8 if len(records) else 0)
    H.rmpp_version.set(mad, 1)
    H.rmpp_type.set(mad, int(RmppType.DATA))
    last = RmppFlag.LAST if segments == 1 else 0
    H.rmpp_flags.set(mad, int(RmppFlag.ACTIVE | RmppFlag.FIRST | last))
    H.segment.set(mad, 1)
    H.length.set(mad, len(data) + CLASS_HEADER * segments)
    first = data[:SA_DATA_OCTETS]
    mad[SA_DATA : SA_DATA + len(first)] = first
    if segments == 1:
        return None
    return mad.tobytes() + data[MAD_SIZE - SA_DATA :].tobytes()


def selected_components(record: type[Structure], comp_mask: int) -> list[str]:
    """Return the names of the components that a mask selects, in the order of the record. Reserved
    ones are left out."""
    return [n for bit, n in enumerate(COMPONENTS[record]) if n is not None and comp_mask >> bit & 1]


def matching(
    record: type[Structure], table: np.ndarray, comp_mask: int, query: np.ndarray, skip: frozenset[str] = frozenset()
) -> np.ndarray:
    """Return the rows int64[m] of ``table`` (uint8[n, size]) whose selected components equal those
    of ``query`` (uint8[size]).

    Components in ``skip`` are not compared here, because the kind of record has a special rule for
    them.
    """
    rows: np.ndarray | None = None
    for name in dict.fromkeys(selected_components(record, comp_mask)):
        if name in skip:
            continue
        some = table if rows is None else table[rows]
        same = np.flatnonzero(_equal(record, name, some, query))
        rows = same if rows is None else rows[same]
        if not len(rows):
            break
    return np.arange(len(table)) if rows is None else rows


def _equal(record: type[Structure], name: str, table: np.ndarray, query: np.ndarray) -> np.ndarray:
    name, _, element = name.partition(":")
    f: Field = record.fields[name]
    bits, offset = (f.bits, f.offset + int(element) * f.bits) if element else (f.width, f.offset)
    if offset % 8 == 0 and bits % 8 == 0:
        octets = slice(offset // 8, (offset + bits) // 8)
        return (table[:, octets] == query[octets]).all(axis=1)
    values = f.get(table) == f.get(query)
    return values.all(axis=1) if values.ndim > 1 else np.asarray(values)
