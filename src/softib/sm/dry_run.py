"""Dry run: find the changes that a manager would make, without making them. Instead of every Set,
the Get of the same attribute is sent.

The manager receives an answer as if its Set had succeeded, and continues. Each difference from the
device's state is recorded, so a dry run is a complete sweep that collects all differences. Only
Gets are sent (IBA 13.4.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.iba.constants import LFT_BLOCK, MFT_BLOCK, SM_SUPPORTS_EXTENDED_SPEEDS, Method, MgmtClass, SmpAttr
from softib.iba.smp import (
    CLASS_AT,
    DATA_AT,
    HOP_COUNT_AT,
    INITIAL_PATH_AT,
    METHOD_AT,
    TID_AT,
    MadHeader,
    PortInfo,
    SwitchInfo,
)
from softib.iba.vendor.vports import VirtualizationInfo, VPortInfo
from softib.mad.batch import MadBatch
from softib.result import HIDDEN, Result, key
from softib.sm.database import Database
from softib.sm.managers.link_mgr import NO_CHANGE_FIELDS

__all__ = ["AttributeChange", "DryRun"]

STRUCTURES: dict[int, Any] = {
    int(SmpAttr.PORT_INFO): PortInfo,
    int(SmpAttr.SWITCH_INFO): SwitchInfo,
    int(SmpAttr.MLNX_VPORT_INFO): VPortInfo,
    int(SmpAttr.MLNX_VIRTUALIZATION_INFO): VirtualizationInfo,
}
TABLES: dict[int, tuple[str, Any, int]] = {
    int(SmpAttr.LFT): ("LFT", np.uint8, LFT_BLOCK),
    int(SmpAttr.MFT): ("MFT", ">u2", MFT_BLOCK),
    int(SmpAttr.PKEY_TABLE): ("P_KeyTable", ">u2", 32),
    int(SmpAttr.SL2VL): ("SLtoVLMappingTable", np.uint8, 8),
    int(SmpAttr.VL_ARB): ("VLArbitrationTable", ">u2", 32),
    int(SmpAttr.MLNX_VPORT_PKEY_TABLE): ("VPortPKeyTable", ">u2", 32),
}
"""Attribute → its name, the type of an entry, and the number of entries in a block."""


COMMANDS = ("client_reregister",)
"""Components that request an action and store nothing. For example, a new master sets
ClientReregister on every CA port (IBA 14.2.5.6)."""


@dataclass(frozen=True)
class PlannedRow(Result):
    """One component, or one entry of a table."""

    what: str | int
    """Name of the component, or index of the entry."""
    now: int
    then: int


@dataclass(frozen=True)
class AttributeChange(Result):
    """An attribute that would change."""

    node: int = field(metadata=HIDDEN)
    guid: int = field(metadata=key("node_guid", json="{:#018x}".format, type=str))
    name: str = field(metadata=key("node", before="guid"))
    attr: str = field(metadata=key("attribute"))
    modifier: int
    """AttributeModifier (IBA 14.2.5)."""
    rows: tuple[tuple[str | int, int, int], ...] = field(
        metadata=key("changes", json=lambda rows: [PlannedRow(*row).to_json() for row in rows], type=list[PlannedRow])
    )
    """(field or table index, current value, new value)."""


class DryRun:
    """Stands between a manager and its port. :meth:`out` takes outgoing MADs, :meth:`back` incoming
    ones."""

    def __init__(self) -> None:
        self._wanted: dict[int, np.ndarray] = {}
        self._held: dict[tuple[bytes, int, int], np.ndarray] = {}
        self._then: dict[tuple[bytes, int, int], np.ndarray] = {}
        self.sets = self.assumed = 0
        """Number of Sets that were not sent, not counting repetitions. Sets of other classes are
        assumed to succeed."""
        self._assumed: list[MadBatch] = []

    def out(self, outbox: MadBatch) -> MadBatch:
        """Return ``outbox`` with each Set replaced by the Get of the same attribute."""
        smps = np.isin(outbox.mad[:, CLASS_AT], (int(MgmtClass.SUBN_LID), int(MgmtClass.SUBN_DR)))
        others = ~smps & (outbox.mad[:, METHOD_AT] == Method.SET) & (outbox.mad[:, CLASS_AT] != MgmtClass.SUBN_ADM)
        if others.any():  # MADs addressed by LIDs that ports do not have yet
            answers = outbox[others].copy()
            answers.mad[:, METHOD_AT] = int(Method.GET_RESP)
            self._assumed.append(answers)
            self.assumed += len(answers)
            outbox, smps = outbox[~others], smps[~others]
        rows = np.flatnonzero(smps & (outbox.mad[:, METHOD_AT] == Method.SET))
        if not len(rows):
            return outbox
        outbox = outbox.copy()
        for row in rows.tolist():
            mad = outbox.mad[row]
            tid = _tid(mad)
            self.sets += tid not in self._wanted
            self._wanted[tid] = mad.copy()
        outbox.mad[rows, METHOD_AT] = int(Method.GET)
        outbox.mad[rows, DATA_AT : DATA_AT + 64] = 0
        return outbox

    def back(self, inbox: MadBatch | None) -> MadBatch | None:
        """Return ``inbox`` with the answers that the manager expects for its Sets."""
        if self._assumed:
            inbox = MadBatch.concat([*self._assumed, *([] if inbox is None else [inbox])])
            self._assumed.clear()
        if inbox is None or not self._wanted:
            return inbox
        for mad in inbox.mad:
            wanted = self._wanted.get(_tid(mad)) if int(mad[METHOD_AT]) == Method.GET_RESP else None
            if wanted is None or int(MadHeader.status.get(mad)) & 0x7FFF:
                continue
            del self._wanted[_tid(mad)]
            now = mad[DATA_AT : DATA_AT + 64].copy()
            key = _key(wanted)
            then = _after(key[1], self._then.get(key, now), wanted[DATA_AT : DATA_AT + 64])
            self._held.setdefault(key, now)
            self._then[key] = then
            mad[DATA_AT : DATA_AT + 64] = then
        return inbox

    def changes(self, db: Database) -> list[AttributeChange]:
        """Return the differences, by node (in the order of names), attribute and block or port."""
        where = _nodes_by_path(db)
        changes = []
        for (path, attr, modifier), now in self._held.items():
            node = where.get(path, -1)
            rows = _differences(attr, modifier, now, self._then[path, attr, modifier])
            if rows:
                guid = int(db.node_guid[node]) if node >= 0 else 0
                name = db.name(node) if node >= 0 else "?"
                changes.append(AttributeChange(node, guid, name, _name(attr), modifier, rows))
        return sorted(changes, key=lambda c: (c.name, c.guid, c.attr, c.modifier))


def _tid(mad: np.ndarray) -> int:
    """Return the lower half of the TransactionID, which the manager sets."""
    return int.from_bytes(mad[TID_AT + 4 : TID_AT + 8].tobytes(), "big")


def _key(mad: np.ndarray) -> tuple[bytes, int, int]:
    """Return directed route, attribute and modifier."""
    path = mad[INITIAL_PATH_AT + 1 : INITIAL_PATH_AT + 1 + int(mad[HOP_COUNT_AT])].tobytes()
    attr, modifier = int(MadHeader.attr_id.get(mad)), int(MadHeader.attr_mod.get(mad))
    return path, attr, modifier & (SM_SUPPORTS_EXTENDED_SPEEDS - 1) if attr == SmpAttr.PORT_INFO else modifier


def _nodes_by_path(db: Database) -> dict[bytes, int]:
    """Return the node of the directed route to it, or to one of its ports."""
    rows = np.concatenate([db.port_route, db.node_route])
    nodes = np.concatenate([db.port_node, np.arange(db.n_nodes, dtype=np.int32)])
    path, hops = db.routes.path, db.routes.hops
    return {
        path[r, 1 : int(hops[r]) + 1].tobytes(): n for r, n in zip(rows.tolist(), nodes.tolist(), strict=True) if r >= 0
    }


def _name(attr: int) -> str:
    if attr in TABLES:
        return TABLES[attr][0]
    if attr in STRUCTURES:
        return str(STRUCTURES[attr].__name__)
    return SmpAttr(attr).name if attr in set(SmpAttr) else f"attribute {attr:#06x}"


def _after(attr: int, now: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the content of the device after Set(``wanted``). Components in which zero means "no
    change" are kept (IBA 14.2.5.6). PortStateChange (14.2.5.4) and VPortStateChange are cleared."""
    then = wanted.copy()
    if attr == SmpAttr.PORT_INFO:
        for f in (*NO_CHANGE_FIELDS, PortInfo.port_state):
            if not int(f.get(then)):
                f.set(then, int(f.get(now)))
    elif attr == SmpAttr.SWITCH_INFO:
        SwitchInfo.port_state_change.set(then, 0)
    elif attr == SmpAttr.MLNX_VIRTUALIZATION_INFO:
        VirtualizationInfo.vport_state_change.set(then, 0)
    elif attr == SmpAttr.MLNX_VPORT_INFO and not int(VPortInfo.vport_state.get(then)):
        VPortInfo.vport_state.set(then, int(VPortInfo.vport_state.get(now)))
    return then


def _differences(attr: int, modifier: int, now: np.ndarray, then: np.ndarray) -> tuple[tuple[str | int, int, int], ...]:
    if attr in TABLES:
        _, dtype, entries = TABLES[attr]
        a, b = (x[: np.dtype(dtype).itemsize * entries].view(dtype) for x in (now, then))
        first = (modifier & 0xFFFF) * entries if attr not in (SmpAttr.MFT, SmpAttr.SL2VL, SmpAttr.VL_ARB) else 0
        first = (modifier & 0x1FF) * entries if attr == SmpAttr.MFT else first
        return tuple((first + i, int(a[i]), int(b[i])) for i in np.flatnonzero(a != b).tolist())
    if attr in STRUCTURES:
        named = [f for f in STRUCTURES[attr].named() if f.count == 1 and not f.is_text and f.name not in COMMANDS]
        fields = [(f.name, int(f.get(now)), int(f.get(then))) for f in named]
        return tuple((n, a, b) for n, a, b in fields if a != b)
    same = bool((now == then).all())
    return () if same else (("data", int.from_bytes(now.tobytes(), "big"), int.from_bytes(then.tobytes(), "big")),)
