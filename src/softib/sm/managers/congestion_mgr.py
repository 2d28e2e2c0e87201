"""The congestion manager: settings of annex A10 for every switch and CA port (OpenSM's
``osm_congestion_control.c``).

Class 0x21 is addressed by LID, so it comes last in a sweep, when links are ACTIVE. A device that
refuses the class is not asked again; what was written is remembered, and the next sweep sends only
what differs.
"""

from __future__ import annotations

import numpy as np

from softib.iba import cc
from softib.iba.constants import Method, MgmtClass, NodeType
from softib.mad.gmp_requests import GMP_DATA, GmpRequests
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.options.congestion import CongestionConfig
from softib.sm.stores import TableStore

__all__ = ["queue_congestion"]


def queue_congestion(
    db: Database, queue: RequestQueue, config: CongestionConfig, store: TableStore, fresh: np.ndarray
) -> None:
    """Put a Set for each setting that a device does not hold. Tags are ports; ``fresh``
    bool[ports]: they lost what they held."""
    ends = db.end_ports()
    node_type = db.node_type[db.port_node[ends]]
    switches, cas = ends[node_type == NodeType.SWITCH], ends[node_type == NodeType.CA]
    _queue(db, queue, config, store, fresh, cc.SwitchCongestionSetting.attr, switches, 0, config.switch)
    _queue(db, queue, config, store, fresh, cc.CACongestionSetting.attr, cas, 0, config.ca)
    for block, image in enumerate(config.table):
        _queue(db, queue, config, store, fresh, cc.CongestionControlTable.attr, cas, block, image)


def _queue(
    db: Database,
    queue: RequestQueue,
    config: CongestionConfig,
    store: TableStore,
    fresh: np.ndarray,
    attr: int | None,
    ports: np.ndarray,
    block: int,
    image: bytes,
) -> None:
    assert attr is not None
    data = np.zeros((len(ports), GMP_DATA), np.uint8)
    data[:, : len(image)] = np.frombuffer(image, np.uint8)
    modifier = np.full(len(ports), block, np.int64)
    keep = store.changed(db, attr, ports, modifier, data, fresh)
    queue.put(
        GmpRequests(
            MgmtClass.CONG_CTRL,
            cc.CC_CLASS_VERSION,
            int(Method.SET),
            attr,
            db.port_lid[ports[keep]],
            ports[keep].astype(np.int64),
            modifier[keep],
            data[keep],
            key=config.key,
        )
    )
