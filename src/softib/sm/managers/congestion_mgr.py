"""The congestion manager. It writes the settings of annex A10, as OpenSM's options for congestion
control define them, to every switch and CA port (OpenSM's ``osm_congestion_control.c``).

MADs of class 0x21 are addressed by LID, so they are sent last in a sweep, when links are ACTIVE. A
device that rejects the class gets no further requests. Settings that were written are stored, so
the next sweep sends only differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.iba import cc
from softib.iba.constants import Method, MgmtClass, NodeType
from softib.mad.gmp_requests import GMP_DATA, GmpRequests
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database

if TYPE_CHECKING:
    from softib.sm.stores import TableStore
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.iba.cc import (
    CCT_BLOCK,
    CACongestionEntry,
    CACongestionSetting,
    CongestionControlTable,
    SwitchCongestionSetting,
)
from softib.sm.options.values import number

__all__ = ["CC_OPTIONS", "CongestionConfig", "congestion_config", "queue_congestion"]


CCT_ENTRIES = 128
"""Maximum number of table entries in OpenSM (OSM_CCT_ENTRY_MAX)."""
MAX_OUTSTANDING = 500
SW, CA = "cc_sw_cong_setting_", "cc_ca_cong_setting_"


@dataclass(frozen=True)
class CongestionConfig:
    """The settings to write. Every switch gets ``switch`` (SwitchCongestionSetting); every CA port
    gets ``ca`` (CACongestionSetting) and ``table`` (blocks of the CongestionControlTable). Requests
    contain ``key``; at most ``max_outstanding`` are in flight."""

    switch: bytes
    ca: bytes
    table: tuple[bytes, ...]
    key: int = 0
    max_outstanding: int = MAX_OUTSTANDING


def _mask(text: str) -> bytes:
    """up to 64 hexadecimal digits, bit n for port n"""
    value = int(text.strip(), 16)
    if not 0 <= value < 1 << 256:
        raise ValueError
    return value.to_bytes(32, "big")


def _delay(text: str) -> int:
    """shift:multiplier, with a shift of 0 to 3 and a multiplier of 0 to 16383"""
    shift, _, multiplier = text.partition(":")
    if not (0 <= int(shift, 0) <= 3 and 0 <= int(multiplier, 0) < 1 << 14):
        raise ValueError
    return int(shift, 0) << 14 | int(multiplier, 0)


def _table(text: str) -> tuple[int, ...]:
    """up to 128 entries shift:multiplier, …, with shifts of 0 to 3 and multipliers of 0 to 16383"""
    entries = tuple(_delay(entry) for entry in text.split(","))
    if len(entries) > CCT_ENTRIES:
        raise ValueError
    return entries


def _by_sl(bits: int) -> Callable[[str], dict[int, int]]:
    def read(text: str) -> dict[int, int]:
        values = {}
        for pair in text.split(","):
            sl, value = (int(word, 0) for word in pair.split())
            if not (0 <= sl < 16 and 0 <= value < 1 << bits):
                raise ValueError
            values[sl] = value
        return values

    read.__doc__ = f"SL and value, for example 0 {(1 << bits) - 1} (several: separated by commas)"
    return read


_SWITCH: dict[str, tuple[str, Callable[[str], Any]]] = {
    "control_map": ("control_map", number(0, 0xFFFFFFFF)),
    "victim_mask": ("victim_mask", _mask),
    "credit_mask": ("credit_mask", _mask),
    "threshold": ("threshold", number(0, 15)),
    "packet_size": ("packet_size", number(0, 255)),
    "credit_starvation_threshold": ("cs_threshold", number(0, 15)),
    "credit_starvation_return_delay": ("cs_return_delay", _delay),
    "marking_rate": ("marking_rate", number(0, 0xFFFF)),
}
_CA_PORT: dict[str, Callable[[str], Any]] = {"port_control": number(0, 0xFFFF), "control_map": number(0, 0xFFFF)}
_ENTRY: dict[str, Callable[[str], Any]] = {
    "ccti_timer": _by_sl(16),
    "ccti_increase": _by_sl(8),
    "trigger_threshold": _by_sl(8),
    "ccti_min": _by_sl(8),
}
CC_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    name: (name, read)
    for name, read in {
        "cc_key": number(0, 0xFFFFFFFFFFFFFFFF),
        "cc_max_outstanding_mads": number(1, 0xFFFF),
        **{SW + name: read for name, (_, read) in _SWITCH.items()},
        **{CA + name: read for name, read in _CA_PORT.items()},
        **{CA + name: read for name, read in _ENTRY.items()},
        "cc_cct": _table,
    }.items()
}
"""OpenSM's name → (name of the setting, reader of its value)."""


def congestion_config(fields: Mapping[str, Any]) -> CongestionConfig | None:
    """Return the settings that ``fields`` configure (names as in CC_OPTIONS, and
    ``congestion_control``); None if that is not set."""
    if not fields.get("congestion_control"):
        return None
    switch = {
        field: np.frombuffer(fields[SW + name], np.uint8) if isinstance(fields[SW + name], bytes) else fields[SW + name]
        for name, (field, _) in _SWITCH.items()
        if SW + name in fields
    }
    entries = CACongestionEntry.zeros(16)
    for name in _ENTRY:
        for sl, value in fields.get(CA + name, {}).items():
            CACongestionEntry.fields[name].set(entries, value, [sl])
    ca = CACongestionSetting.pack(
        **{name: fields[CA + name] for name in _CA_PORT if CA + name in fields}, entries=entries.ravel()
    )
    return CongestionConfig(
        SwitchCongestionSetting.pack(**switch).tobytes(),
        ca.tobytes(),
        _blocks(fields.get("cc_cct", ())),
        fields.get("cc_key", 0),
        fields.get("cc_max_outstanding_mads", MAX_OUTSTANDING),
    )


def _blocks(entries: tuple[int, ...]) -> tuple[bytes, ...]:
    """Return the table in blocks of 64. There is at least one block, for the limit; for a table of
    one entry, OpenSM writes only the limit 0."""
    limit = max(len(entries) - 1, 0)
    table = np.zeros(max(1, -(-len(entries) // CCT_BLOCK)) * CCT_BLOCK, np.int64)
    if limit:
        table[: len(entries)] = entries
    return tuple(
        CongestionControlTable.pack(ccti_limit=limit, entry=block).tobytes() for block in table.reshape(-1, CCT_BLOCK)
    )


def queue_congestion(
    db: Database, queue: RequestQueue, config: CongestionConfig, store: TableStore, fresh: np.ndarray
) -> None:
    """Queue a Set for each setting that a device does not have yet. Tags are ports. ``fresh``
    bool[ports]: ports that lost their settings."""
    ends = db.end_ports()
    node_type = db.node_type[db.port_node[ends]]
    switches, cas = ends[node_type == NodeType.SWITCH], ends[node_type == NodeType.CA]
    settings: list[tuple[int | None, np.ndarray, int, bytes]] = [
        (cc.SwitchCongestionSetting.attr, switches, 0, config.switch),
        (cc.CACongestionSetting.attr, cas, 0, config.ca),
        *((cc.CongestionControlTable.attr, cas, block, image) for block, image in enumerate(config.table)),
    ]
    for attr, ports, block, image in settings:
        assert attr is not None
        data = np.zeros((len(ports), GMP_DATA), np.uint8)
        data[:, : len(image)] = np.frombuffer(image, np.uint8)
        modifier = np.full(len(ports), block, np.int64)
        keep = store.changed(db, attr, ports, modifier, data, fresh)
        queue.put(_requests(db, config, attr, ports[keep], modifier[keep], data[keep]))


def _requests(
    db: Database, config: CongestionConfig, attr: int, ports: np.ndarray, modifier: np.ndarray, data: np.ndarray
) -> GmpRequests:
    return GmpRequests(
        MgmtClass.CONG_CTRL,
        cc.CC_CLASS_VERSION,
        int(Method.SET),
        attr,
        db.port_lid[ports],
        ports.astype(np.int64),
        modifier,
        data,
        key=config.key,
    )
