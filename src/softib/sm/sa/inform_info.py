"""InformInfo and InformInfoRecord (IBA 13.4.8.3, 15.2.5.12): subscribing, and the list of
subscriptions."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LID_UCAST_MAX
from softib.iba.sa import InformInfo as I
from softib.iba.sa import InformInfoRecord as R
from softib.iba.sa import SaStatus
from softib.sm.notices import Subscription, Subscriptions
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.subnet import Subnet

__all__ = ["subscribe", "table"]

SECURITY_TRAPS = range(256, 260)
ALL_LIDS, MULTICAST = 0xFFFF, 0xFF
INFORM_AT = R.fields["gid"].byte


def subscribe(subnet: Subnet, subscriptions: Subscriptions, r: Request, sees: np.ndarray | None = None) -> Answer:
    """Set(InformInfo): the requester wants reports, or no longer; they go to the QP that asked.

    Security traps only to the trusted (IBA 14.2.5.1, they tell keys). ``sees`` bool[ends]: whom the
    requester sees (None: everybody); a GID or a range of LIDs with anybody else is refused, as
    OpenSM refuses it.
    """
    inform = r.data[: I.size].copy()
    wants, qpn = int(I.subscribe.get(inform)), int(I.qpn.get(inform))
    if r.end < 0 or wants > 1:
        return Answer(SaStatus.REQ_INVALID)
    if not r.trusted and not _may_hear(subnet, inform, r.end, sees):
        return Answer(SaStatus.REQ_INVALID)
    if int(I.is_generic.get(inform)) and int(I.trap_number.get(inform)) in SECURITY_TRAPS and not r.trusted:
        return Answer(SaStatus.REQ_DENIED)
    qp = r.qp if wants or not qpn else qpn
    key = inform.copy()
    I.subscribe.set(key, 1)
    I.qpn.set(key, qp)
    gid = (subnet.config.subnet_prefix, int(subnet.end_guid[r.end]))
    one = Subscription(gid, r.lid, qp, key.tobytes())
    if wants:
        subscriptions.add(one)
    elif not subscriptions.remove(one):
        return Answer(SaStatus.REQ_INVALID)
    return Answer(records=np.concatenate([inform, np.zeros(4, np.uint8)])[None])


def _may_hear(subnet: Subnet, inform: np.ndarray, end: int, sees: np.ndarray | None) -> bool:
    """Is the issuer that it names, or each in its range of LIDs, a port that the requester sees?
    LID 0xffff means all: the reports are what is seen."""
    gid = np.asarray(I.gid.get(inform), np.uint64)
    if gid.any():
        if int(gid[0]) >> 56 == MULTICAST:
            return True  # of traps 66 and 67: the group
        issuers = subnet.ends_of_gid(gid[None])
        return sees is None or bool(sees[issuers[issuers >= 0]].all())  # nobody's: who waits for it hears when it comes
    begin, last = int(I.lid_range_begin.get(inform)), int(I.lid_range_end.get(inform))
    if begin in (0, ALL_LIDS):
        return True
    if max(begin, last) > LID_UCAST_MAX:
        return False
    issuers = np.unique(subnet.end_of_lid[begin : max(begin, last) + 1])
    issuers = issuers[issuers >= 0]
    return sees is None or bool(sees[issuers].all())


def table(subscriptions: Subscriptions) -> np.ndarray:
    """uint8[subscriptions, 64]; ``enum`` counts the subscriptions of one subscriber from 0."""
    out = R.zeros(len(subscriptions.all))
    seen: dict[tuple[int, int], int] = {}
    for row, s in zip(out, subscriptions.all, strict=True):
        R.subscriber_gid.set(row, np.array(s.gid, np.uint64))
        R.enum.set(row, seen.get(s.gid, 0))
        seen[s.gid] = seen.get(s.gid, 0) + 1
        row[INFORM_AT : INFORM_AT + I.size] = np.frombuffer(s.inform, np.uint8)
    return out
