"""The SL of one path of a running fabric, as its subnet administration reports it (IBA 15.2.5.16)."""

from __future__ import annotations

from softib.errors import PeerError
from softib.iba.sa import PathRecord
from softib.live.instances import Instance
from softib.live.sa_client.path_sls import manager_of
from softib.live.sa_client.tables import SaTables

__all__ = ["path_sl"]

PATIENCE_S = 10.0


def path_sl(instance: Instance, slid: int, dlid: int, port: int | None = None) -> int:
    """SL of the path between two LIDs, asked on the subnet of port row ``port`` (None: of the default port).
    Raises :class:`PeerError` where no administration answers, or it knows no path."""
    attached, (lid, sl) = manager_of(instance, port)
    with SaTables(attached, lid, sl, PATIENCE_S) as sa:
        for _, records in sa.tables(PathRecord, [{"slid": slid, "dlid": dlid}]):
            if len(records):
                return int(PathRecord.sl.get(records)[0])
    raise PeerError(f"the subnet administration reports no path from LID {slid} to LID {dlid}")
