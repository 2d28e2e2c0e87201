"""The SLs of some paths of a running fabric, as its subnet administration reports them (IBA
15.2.5.16)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.errors import PeerError
from softib.iba.sa import PathRecord
from softib.live.instances import Instance
from softib.live.sa_client.path_sls import manager_of
from softib.live.sa_client.tables import SaTables
from softib.plural import counted, plural

__all__ = ["MOST_RECORDS", "NO_RECORD", "PATIENCE_S", "pair_sls"]

NO_RECORD = -1
RECORDS_A_QUERY = 400
"""Records of a long answer that take as long as a query of one: 0.74 us each beside 0.3 ms
(docs/figures.md)."""
MOST_RECORDS = 40_000_000
"""All paths of 6,300 end ports, which our own manager answers in half a minute. OpenSM makes some
30,000 to 100,000 a second: there :data:`PATIENCE_S` ends it."""
PATIENCE_S = 180.0


def pair_sls(instance: Instance, slid: np.ndarray, dlid: np.ndarray, port: int | None = None) -> np.ndarray:
    """SL (int16) of the path from each LID of ``slid`` to that of ``dlid``, :data:`NO_RECORD` where
    the administration has none, asked on the subnet of port row ``port`` (None: of the default
    port). One query a source (SubnAdmGetTable by SLID) where that is less work than one a pair
    (SubnAdmGet).

    Raises :class:`PeerError`, one line: no manager, none that answers within :data:`PATIENCE_S`,
    more than :data:`MOST_RECORDS`, and where it has no path at all.
    """
    sources, row = np.unique(np.asarray(slid, np.int64), return_inverse=True)
    ends = int(np.asarray(dlid).max(initial=0))  # LIDs are dense: about as many records a source
    by_source = len(sources) * ends <= RECORDS_A_QUERY * len(slid)
    records = len(sources) * ends if by_source else RECORDS_A_QUERY * len(slid)
    if records > MOST_RECORDS:
        raise PeerError(
            f"{counted(len(slid), 'path')} of {counted(len(sources), 'port')} {plural(len(sources), 'is', 'are')} "
            f"too many to ask for"
        )
    found = np.full(len(slid), NO_RECORD, np.int16)
    attached, (lid, sl) = manager_of(instance, port)
    with SaTables(attached, lid, sl, PATIENCE_S) as sa:
        for pairs, answer in _by_source(sa, sources, row) if by_source else _by_pair(sa, slid, dlid):
            sl_of = np.full(1 << 16, NO_RECORD, np.int16)
            sl_of[PathRecord.dlid.get(answer)] = PathRecord.sl.get(answer)
            found[pairs] = sl_of[dlid[pairs]]
    if (found == NO_RECORD).all():
        raise PeerError("the subnet administration reports no path")
    return found


def _by_source(sa: SaTables, sources: np.ndarray, row: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of pairs, and the records of all paths from their one source."""
    order = np.argsort(row, kind="stable")
    first = np.searchsorted(row[order], np.arange(len(sources) + 1))
    for number, answer in sa.tables(PathRecord, [{"slid": int(s)} for s in sources]):
        yield order[first[number] : first[number + 1]], answer


def _by_pair(sa: SaTables, slid: np.ndarray, dlid: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    queries = [{"slid": int(a), "dlid": int(b)} for a, b in zip(slid, dlid, strict=True)]
    for number, answer in sa.tables(PathRecord, queries, one=True):
        yield np.array([number]), answer
