"""Answer one SA request, by attribute and method (IBA 15.2.5, 15.4).

Records that are plain tables are in :mod:`softib.sm.sa.record_tables`. ``_METHODS`` has the
attributes that need other functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import MadStatus
from softib.iba.sa import (
    ClassPortInfo,
    PathRecord,
    PortInfoRecord,
    SaAttr,
    SaCapMask,
    SaCapMask2,
    SaMethod,
    SaStatus,
)
from softib.sm.sa.inventory import READ_FROM_DEVICES, Need
from softib.sm.sa.message import Answer, Request, matching, selected_components
from softib.sm.sa.multipath_and_trace import multi_path, trace
from softib.sm.sa.path_record import ANY, BIT, NUMB_PATH_DEFAULT, path_to_group
from softib.sm.sa.record_tables import KINDS, MATCH_BITS, Kind, bits_match
from softib.sm.sa.subscriptions import subscribe

if TYPE_CHECKING:
    from softib.sm.sa.administrator import Administrator

__all__ = ["DGID_AT", "MULTICAST_PREFIX", "answer_of"]

A, M, E = SaAttr, SaMethod, SaStatus
MULTICAST_PREFIX = 0xFF
DGID_AT = PathRecord.dgid.byte
"""Offset in a PathRecord of the GID's first byte, which shows whether it is a multicast GID."""
LID_BIT = 1
"""Bit of LID, the first component of every record that is read from devices."""
PORT_COMPONENTS = frozenset(("portnum", "in_port", "out_port"))
C, C2 = SaCapMask, SaCapMask2
CAP_MASK = C.NOTICE | C.OPTIONAL_RECORDS | C.UD_MULTICAST | C.MULTI_PATH | C.PORT_INFO_CAP_MASK_MATCH
CAP_MASK2 = C2.FULL_PORT_INFO | C2.EXTENDED_SPEEDS | C2.PORT_INFO_CAP_MASK2_MATCH | C2.SEND_ONLY_FULL_MEMBER
RESP_TIME = 0x10
"""Code for 4.096 us * 2^16 = 0.27 s, OpenSM's value. A sweep seldom takes longer."""
QKEY = 0x80010000


def answer_of(a: Administrator, r: Request) -> Answer:
    """Return the records, the status, or the tables to read first, for one request."""
    if r.attr in READ_FROM_DEVICES:
        return _from_devices(a, r)
    if (function := _METHODS.get((r.attr, r.method))) is not None:
        return function(a, r)
    kind = KINDS.get(r.attr)
    if kind is None or r.method not in (M.GET, M.GET_TABLE):
        return Answer(MadStatus.BAD_ATTRIBUTE)
    return _from_table(a, kind, r)


def _from_table(a: Administrator, kind: Kind, r: Request) -> Answer:
    table = a.tables.get(r.attr) if kind.lasting else None
    if table is None:
        table = kind.table(a)
    if kind.lasting:
        a.tables[r.attr] = table
    query, skip = r.data[: kind.record.size], frozenset[str]()
    if kind.record is PortInfoRecord and r.modifier & MATCH_BITS:
        rows, skip = bits_match(table, r.comp_mask, query)
        table = table[rows]
    records = table[matching(kind.record, table, r.comp_mask, query, skip)]
    if not r.trusted:
        for name in kind.hidden:
            kind.record.fields[name].set(records, 0)
    return Answer(records=records)


def _from_devices(a: Administrator, r: Request) -> Answer:
    if r.method not in (M.GET, M.GET_TABLE):
        return Answer(MadStatus.BAD_ATTRIBUTE)
    if r.attr == A.PKEY_RECORD and not r.trusted:
        # OpenSM's answer, although IBA 15.4.1.2 permits records of ports in a common partition
        return Answer(E.REQ_INVALID)
    record = READ_FROM_DEVICES[r.attr].record
    lid = int(record.fields["lid"].get(r.data)) if r.comp_mask & LID_BIT else 0
    table = a.read.get(Need(r.attr, lid), a.read.get(Need(r.attr)))
    if table is None:
        return Answer(wait=Need(r.attr, lid))
    query = r.data[: record.size]
    if (
        r.attr == A.PKEY_RECORD
    ):  # a request has the most significant byte first, the answer the least significant byte: see the inventory
        query = query.copy()
        query[2:4] = query[3:1:-1].copy()
    rows = matching(record, table, r.comp_mask, query)
    ports = PORT_COMPONENTS & set(selected_components(record, r.comp_mask))
    if ports:  # a CA port has its own LID, so the port number is compared only for switches, as in OpenSM
        others = matching(record, table, r.comp_mask, query, frozenset(ports))
        end = a.administered.end_of_lid[record.fields["lid"].get(table[others])]
        db = a.administered.db
        rows = np.union1d(rows, others[~db.is_switch[a.administered.end_node[end]]])
    return Answer(records=table[rows])


def _class_port_info(a: Administrator, r: Request) -> Answer:
    """Return ClassPortInfo (IBA 13.4.8.1, 15.2.5.1). Requests are not redirected."""
    info = ClassPortInfo.pack(
        base_version=1,
        class_version=2,
        cap_mask=int(CAP_MASK),
        cap_mask2=int(CAP_MASK2),
        resp_time_value=RESP_TIME,
        redirect_qp=1,
        redirect_qkey=QKEY,
        trap_qkey=QKEY,
    )
    return Answer(records=info[None])


def _multi_path(a: Administrator, r: Request) -> Answer:
    assert a.paths is not None
    return multi_path(a.administered, a.paths, r)


def _subscribe(a: Administrator, r: Request) -> Answer:
    sees = None if a.views is None or a.views.open or r.end < 0 else a.views.ends(r.end)
    return subscribe(a.administered, a.subscriptions, r, sees)


def _trace(a: Administrator, r: Request) -> Answer:
    assert a.paths is not None and a.views is not None
    answer, path = trace(a.administered, a.paths, r)
    hidden = len(path) and not r.trusted and not len(a.views.filtered(A.PATH_RECORD, path, r.end))
    return Answer(E.NO_RECORDS) if hidden else answer


def _path(a: Administrator, r: Request) -> Answer:
    assert a.paths is not None
    if np.uint64(r.comp_mask) & BIT["dgid"] and r.data[DGID_AT] == MULTICAST_PREFIX:
        return _path_to_group(a, r)
    q, mask = r.data[None, :64], np.array([r.comp_mask], np.uint64)
    source, target, status = a.paths.ends(q, mask)
    if status[0]:
        no_such_end = r.method == M.GET_TABLE and status[0] != E.REQ_INVALID
        return Answer(records=PathRecord.zeros(0)) if no_such_end else Answer(int(status[0]))
    most = NUMB_PATH_DEFAULT if r.method == M.GET_TABLE else 1
    if r.method == M.GET_TABLE and mask[0] & BIT["numb_path"]:
        most = int(PathRecord.numb_path.get(q[0])) or most
    if r.method == M.GET and ANY in (source[0], target[0]) and len(a.subnet or ()) > 1:
        return Answer(E.REQ_INSUFFICIENT_COMPONENTS)
    records = a.paths.table(q, mask, int(source[0]), int(target[0]), most)
    return Answer(E.NO_RESOURCES) if records is None else Answer(records=records)


def _path_to_group(a: Administrator, r: Request) -> Answer:
    """Return the path to a multicast GID, with the MLID, MTU, rate and SL of the group."""
    assert a.paths is not None
    group = a.multicast.groups.groups.get(r.data[DGID_AT : DGID_AT + 16].tobytes())
    if group is None or not (r.trusted or (r.end >= 0 and a.members.has(r.end, group.pkey & 0x7FFF))):
        return Answer(records=PathRecord.zeros(0))
    mask = np.array([r.comp_mask], np.uint64) & ~(BIT["dgid"] | BIT["dlid"])
    source, _, status = a.paths.ends(r.data[None, :64], mask)
    if status[0] or source[0] == ANY:
        return Answer(int(status[0]) or E.REQ_INSUFFICIENT_COMPONENTS)
    return Answer(records=path_to_group(a.administered, group, int(source[0]))[None])


def _change_aliases(a: Administrator, r: Request) -> Answer:
    answer = a.aliases.change(a.administered, r)
    a.renamed()
    return answer


_METHODS: dict[tuple[int, int], Callable[[Administrator, Request], Answer]] = {
    (A.CLASS_PORT_INFO, M.GET): _class_port_info,
    (A.PATH_RECORD, M.GET): _path,
    (A.PATH_RECORD, M.GET_TABLE): _path,
    (A.MULTI_PATH_RECORD, M.GET_MULTI): _multi_path,
    (A.TRACE_RECORD, M.GET_TRACE_TABLE): _trace,
    (A.INFORM_INFO, M.SET): _subscribe,
    (A.GUID_INFO_RECORD, M.SET): _change_aliases,
    (A.GUID_INFO_RECORD, M.DELETE): _change_aliases,
    (A.MC_MEMBER_RECORD, M.SET): lambda a, r: a.multicast.join(a.administered, a.members, r),
    (A.MC_MEMBER_RECORD, M.DELETE): lambda a, r: a.multicast.leave(a.administered, a.members, r),
    (A.MC_MEMBER_RECORD, M.GET): lambda a, r: a.multicast.list(a.administered, a.members, r),
    (A.MC_MEMBER_RECORD, M.GET_TABLE): lambda a, r: a.multicast.list(a.administered, a.members, r),
    (A.SERVICE_RECORD, M.SET): lambda a, r: a.services.register(a.administered, a.members, r),
    (A.SERVICE_RECORD, M.DELETE): lambda a, r: a.services.delete(r),
    (A.SERVICE_RECORD, M.GET): lambda a, r: a.services.list(r),
    (A.SERVICE_RECORD, M.GET_TABLE): lambda a, r: a.services.list(r),
}
"""(attribute, method) → the function that answers."""
