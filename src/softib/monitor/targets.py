"""The ports to poll, as found by a discovery, and the LIDs of their agents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.fabric.power_up import active_speed_codes
from softib.foreign_text import field_text
from softib.iba.constants import PhysState
from softib.iba.rates import LANES_BY_BIT, SPEEDS, WIDTH_BITS, data_gbps
from softib.iba.smp import PortInfo
from softib.monitor.sharding.shard import Shard
from softib.sm.database import Database

__all__ = ["Targets", "best_gbps", "lanes_of", "port_keys", "rate_gbps", "targets_of"]

_LANES = np.zeros(256, np.int64)
for _bit, _lanes in LANES_BY_BIT.items():
    _LANES[_bit] = _lanes


def rate_gbps(info: np.ndarray) -> np.ndarray:
    """Return the data rate of each port in Gb/s, from its PortInfo (uint8[n, 64]); 0 if the link is down
    (float64[n])."""
    codes = active_speed_codes(info, np.zeros((len(info), 3), np.uint8))
    up = PortInfo.port_phys_state.get(info) == PhysState.LINK_UP
    return np.where(up, data_gbps(codes, _LANES[PortInfo.link_width_active.get(info)]), 0.0)


_LANE_GBPS = np.array([np.nan, *(s.lane_gbps for s in SPEEDS)])


def lanes_of(info: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each port's number of active lanes and the signalling rate of a lane in Gb/s, from its PortInfo; NaN if
    the link is down (float64[n] each)."""
    codes = active_speed_codes(info, np.zeros((len(info), 3), np.uint8))
    up = PortInfo.port_phys_state.get(info) == PhysState.LINK_UP
    lanes = _LANES[PortInfo.link_width_active.get(info)].astype(np.float64)
    return np.where(up & (lanes > 0), lanes, np.nan), np.where(up, _LANE_GBPS[codes], np.nan)


def best_gbps(info: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """Return the data rate in Gb/s at which each link could train, from the capabilities of both
    ends in PortInfo (``peer``: row of the other end, -1 unknown); NaN if one end is unknown (float64[n])."""
    code = np.zeros(len(info), np.int64)
    for s in SPEEDS:
        if s.ext2_bit:
            has = (PortInfo.link_speed_ext2_supported.get(info) & s.ext2_bit) > 0
        elif s.ext_bit:
            has = (PortInfo.link_speed_ext_supported.get(info) & s.ext_bit) > 0
        elif s.mlnx_bit:
            continue  # FDR10 is not in PortInfo, but in a vendor-specific attribute
        else:
            has = (PortInfo.link_speed_supported.get(info) & s.speed_bit) > 0
        code[has] = s.code
    bits = PortInfo.link_width_supported.get(info)
    lanes = np.zeros(len(info), np.int64)
    for n, bit in sorted(WIDTH_BITS.items()):
        lanes[(bits & bit) > 0] = n
    other = np.maximum(peer, 0)
    both, wide = np.minimum(code, code[other]), np.minimum(lanes, lanes[other])
    sure = (peer >= 0) & (both > 0) & (wide > 0)
    return np.where(sure, data_gbps(np.where(sure, both, 0), np.where(sure, wide, 0)), np.nan)


@dataclass(frozen=True)
class Targets:
    """``n`` ports of ``d`` devices, which are reached through ``m`` end ports (LIDs).

    ``ports``: sorted by (NodeGUID, portnum); ``device`` int32[n]: each port's node (``device_guid`` uint64[d],
    ascending); ``end`` int32[n]: the end port whose LID reaches the port's agent; ``end_lid`` uint16[m], ``end_device``
    int32[m], ``end_portnum`` uint8[m] (0: port 0 of a switch); ``info`` uint8[n, 64]: PortInfo as read by discovery;
    ``modifier`` uint32[n]: the AttributeModifier of PortInfo of each port.
    """

    ports: ObservedPorts
    device: np.ndarray
    end: np.ndarray
    device_guid: np.ndarray
    end_lid: np.ndarray
    end_device: np.ndarray
    end_portnum: np.ndarray
    info: np.ndarray
    modifier: np.ndarray

    def __len__(self) -> int:
        return len(self.ports)

    @property
    def dlid(self) -> np.ndarray:
        """The LID of each port's agent (uint16[n])."""
        return np.asarray(self.end_lid[self.end])

    def with_text(self, name: str, texts: np.ndarray) -> Targets:
        """Return these targets with another column in ``ports.text``."""
        return replace(self, ports=replace(self.ports, text={**self.ports.text, name: texts}))


def targets_of(db: Database, before: ObservedPorts | None = None, shard: Shard | None = None) -> Targets:
    """Return the ports of devices that have a LID: those for which the discovery found a link, and those in ``before``,
    whose links may be down now. Only ports of ``shard`` (None: all ports) and the far ends of their cables are
    returned."""
    number = db.port_num.astype(np.int64)
    node = db.port_node.astype(np.int64)
    on_switch = db.is_switch[node]
    agent = np.where(on_switch, db.node_base[node], np.arange(db.n_ports))
    lid = np.where(db.has_port_info[agent], PortInfo.lid.get(db.port_info)[agent], 0)
    guid = db.node_guid[node]
    kept = db.port_peer >= 0
    if shard is not None:
        of_shard = shard.holds(guid)
        kept &= of_shard | of_shard[db.port_peer]
    if before is not None:
        kept |= np.isin(port_keys(guid, db.port_num), port_keys(before.node_guid, before.portnum))
    rows = np.flatnonzero(kept & (number > 0) & (lid > 0) & db.has_port_info)
    rows = rows[np.lexsort((number[rows], guid[rows]))]
    place = np.full(db.n_ports, -1, np.int64)
    place[rows] = np.arange(len(rows))
    peer = db.port_peer[rows]
    device_guid, device = np.unique(guid[rows], return_inverse=True)
    agents, end = np.unique(agent[rows], return_inverse=True)
    names = _names(db)
    info = db.port_info[rows].copy()
    of = node[rows]
    ports = ObservedPorts(
        guid[rows],
        number[rows].astype(np.int32),
        on_switch[rows].copy(),
        tuple(names[i] for i in of.tolist()),
        lid[rows].astype(np.int32),
        np.where(peer >= 0, place[np.maximum(peer, 0)], -1).astype(np.int32),
        rate_gbps(info),
        _texts(db, of, rows),
    )
    end_device = np.searchsorted(device_guid, guid[agents]).astype(np.int32)
    return Targets(
        ports=ports,
        device=device.astype(np.int32).reshape(-1),
        end=end.astype(np.int32).reshape(-1),
        device_guid=device_guid,
        end_lid=lid[agents].astype(np.uint16),
        end_device=end_device,
        end_portnum=db.port_num[agents].copy(),
        info=info,
        modifier=db.port_modifier(rows).astype(np.uint32),
    )


def port_keys(guid: np.ndarray, portnum: np.ndarray) -> np.ndarray:
    """Return a sort key for each port: NodeGUID, then portnum."""
    keys = np.zeros(len(guid), np.dtype([("guid", np.uint64), ("portnum", np.int32)]))
    keys["guid"], keys["portnum"] = guid, portnum
    return keys


def _names(db: Database) -> list[str]:
    return [field_text(row).strip() for row in db.node_desc]


def _texts(db: Database, node: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return texts from NodeInfo: vendor, chip, and PortGUID (for all ports of a switch, that of port 0)."""
    vendor = np.array([f"{v:#08x}" for v in db.vendor_id.tolist()], object)
    device = np.array([str(v) for v in db.device_id.tolist()], object)
    system = np.array([f"{v:#018x}" for v in db.sys_guid.tolist()], object)
    agent = np.where(db.is_switch[node], db.node_base[node], rows)
    port_guid = np.array([f"{g:#018x}" if g else "" for g in db.port_guid[agent].tolist()], object)
    return {"vendor": vendor[node], "device": device[node], "system": system[node], "port_guid": port_guid}
