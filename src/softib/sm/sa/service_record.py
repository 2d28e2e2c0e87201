"""ServiceRecord (IBA 15.2.5.14): services by name, each for the duration of its lease."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import SaStatus, mask_of
from softib.iba.sa import ServiceRecord as R
from softib.mad.transactor import NEVER_PS
from softib.sm.journal import Journal, Kind, record_key
from softib.sm.managers.partitions import Members
from softib.sm.sa.message import Answer, Request, matching
from softib.sm.sa.subnet import Subnet

__all__ = ["Services"]

IDENTITY = mask_of(R, "service_id")
KEY, LEASE = mask_of(R, "service_key"), mask_of(R, "service_lease")
FOR_EVER = 0xFFFFFFFF
PS_PER_S = 10**12
MOST = 100_000
"""Maximum number of stored records, so that a client in a loop cannot exhaust the memory."""
HEAD = 8 + 16 + 2


class Services:
    """Records by (ServiceID, GID, P_Key), with the end of the lease and the LID that registered each."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self.records: dict[bytes, tuple[np.ndarray, int, int]] = {}

    def _may(self, old: tuple[np.ndarray, int, int], given: np.ndarray, r: Request) -> bool:
        """Return whether this requester may change the record: the port that registered it, a
        requester that states its ServiceKey, or a trusted requester. (OpenSM permits every port to
        change it. osmtest renews and deletes its own records without the key.)
        """
        knows = bool((R.service_key.get(old[0]) == R.service_key.get(given)).all())
        return knows or r.trusted or r.lid == old[2]

    def register(self, subnet: Subnet, members: Members, r: Request) -> Answer:
        """Set: register or renew."""
        self._expire(r.now_ps)
        if r.comp_mask & IDENTITY != IDENTITY:
            return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS)
        record = r.data[: R.size].copy()
        # The GID is not checked, as in OpenSM (osmtest registers GIDs that no port has). But if a
        # port has the GID, it must have the P_Key.
        end, pkey = (
            int(subnet.ends_of_gid(R.service_gid.get(record)[None])[0]),
            int(R.service_pkey.get(record)) & 0x7FFF,
        )
        if end >= 0 and pkey and not members.has(end, pkey):
            return Answer(SaStatus.REQ_INVALID)
        name = record[:HEAD].tobytes()
        old = self.records.get(name)
        if old is not None and not self._may(old, record, r):
            return Answer(SaStatus.REQ_INVALID)
        if old is None and len(self.records) >= MOST:
            return Answer(SaStatus.NO_RESOURCES)
        lease = int(R.service_lease.get(record)) if r.comp_mask & LEASE else FOR_EVER
        R.service_lease.set(record, lease)
        self.records[name] = record, NEVER_PS if lease == FOR_EVER else r.now_ps + lease * PS_PER_S, r.lid
        self.journal.note(record_key(Kind.SERVICE, name))
        return Answer(records=_keyless(record))

    def delete(self, r: Request) -> Answer:
        """Delete the record with this identity. The component mask is ignored, as in OpenSM,
        because osmtest sets the bit of the name."""
        self._expire(r.now_ps)
        old = self.records.get(r.data[:HEAD].tobytes())
        if old is None:
            return Answer(SaStatus.NO_RECORDS)
        if not self._may(old, r.data, r):
            return Answer(SaStatus.REQ_INVALID)
        self._remove(r.data[:HEAD].tobytes())
        return Answer(records=_keyless(old[0]))

    def list(self, r: Request) -> Answer:
        """Get, GetTable. The lease in the answer is the remaining time. Only trusted requesters see
        the ServiceKey."""
        self._expire(r.now_ps)
        table = R.zeros(len(self.records))
        for row, (record, ends_ps, _) in zip(table, self.records.values(), strict=True):
            row[:] = record
            if ends_ps != NEVER_PS:
                R.service_lease.set(row, -(-(ends_ps - r.now_ps) // PS_PER_S))
        records = table[matching(R, table, r.comp_mask & ~LEASE, r.data[: R.size])]
        if not r.trusted:
            R.service_key.set(records, np.zeros((len(records), 2), np.uint64))
        return Answer(records=records)

    def remove_ports(self, guids: set[int]) -> None:
        """Remove the services of ports that left."""
        left = [k for k, (record, *_) in self.records.items() if int(R.service_gid.get(record)[1]) in guids]
        for name in left:
            self._remove(name)

    def _expire(self, now_ps: int) -> None:
        for name in [n for n, (_, ends_ps, _) in self.records.items() if ends_ps <= now_ps]:
            self._remove(name)

    def _remove(self, name: bytes) -> None:
        del self.records[name]
        self.journal.note(record_key(Kind.SERVICE, name))


def _keyless(record: np.ndarray) -> np.ndarray:
    """Return the record (uint8[1, 176]) without the ServiceKey, because no answer may show it (IBA
    C15-0.1.14)."""
    out = record[None].copy()
    R.service_key.set(out, np.zeros((1, 2), np.uint64))
    return out
