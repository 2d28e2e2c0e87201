"""Reader of virtual ports and their P_Key tables. It uses the read-only phases of the subnet manager."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.vendor.vports import VPORT_PKEYS, VPortInfo, vport_modifier
from softib.ragged import spread
from softib.sm.vports.vport_mgr import BLOCKS, VPortManager

if TYPE_CHECKING:
    from softib.live.subnet_reader import SubnetReader
    from softib.mad.smp_requests import RequestQueue
    from softib.sm.config import SmConfig
    from softib.sm.database import Database
    from softib.sm.sweep.report import SweepReport
    from softib.sm.sweep.sweep import Sweep

__all__ = ["read_vports", "vport_pkey_tables"]

READS = ("vports", "vport_states", "vport_infos")


@dataclass
class _Sweep:
    """The attributes of a sweep that the discovery of virtual ports uses."""

    database: Database
    queue: RequestQueue
    config: SmConfig
    report: SweepReport
    suspects: None = None
    registered: None = None


def read_vports(reader: SubnetReader) -> None:
    """Read the virtual ports of the ports that :meth:`SubnetReader.nodes` found, into ``vports`` of the database."""
    s = reader.subnet
    manager = VPortManager(cast("Sweep", _Sweep(s.db, reader.queue, reader.config, s.report)))
    if manager.idle:
        return
    for phase in READS:
        manager.enter[phase]()
        reader.drive(phase, partial(manager.heard, phase), partial(manager.lost, phase))
    manager.discovered()


def vport_pkey_tables(reader: SubnetReader, rows: np.ndarray) -> dict[int, np.ndarray]:
    """Return P_Key tables (uint16[entries]) by row of ``vports``, for those of ``rows`` that answered completely and
    still have the GUID that discovery found."""
    db, table = reader.subnet.db, reader.subnet.db.vports
    ports, blocks = table.ports(db)[rows], table.pkey_blocks[rows]
    rows, ports, blocks = (column[ports >= 0] for column in (rows, ports, blocks))
    of_row, block = spread(blocks)
    index = table.index.astype(np.int64)
    out = {r: np.zeros((n, VPORT_PKEYS), np.uint16) for r, n in zip(rows.tolist(), blocks.tolist(), strict=True)}
    reader.queue.get(SmpAttr.MLNX_VPORT_INFO, db.port_route[ports], rows, index[rows])
    row = rows[of_row]
    reader.queue.get(
        SmpAttr.MLNX_VPORT_PKEY_TABLE,
        db.port_route[ports[of_row]],
        row * BLOCKS + block,
        vport_modifier(index[row], block),
    )

    def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if attr == SmpAttr.MLNX_VPORT_INFO:
            lost(attr, tags[VPortInfo.vport_guid.get(data) != table.guid[tags]], "is another virtual port")
            return
        for tag, image in zip(tags.tolist(), data, strict=True):
            if (entries := out.get(tag // BLOCKS)) is not None:
                entries[tag % BLOCKS] = image.view(">u2")

    def lost(attr: int, tags: np.ndarray, why: str) -> None:
        for tag in tags.tolist():
            out.pop(tag if attr == SmpAttr.MLNX_VPORT_INFO else tag // BLOCKS, None)

    reader.drive("P_Key tables", heard, lost)
    return {row: entries.ravel() for row, entries in out.items()}
