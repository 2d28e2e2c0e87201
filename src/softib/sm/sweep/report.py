"""The report of a sweep, as numbers and as text. ``softib status`` reads it from a daemon, so this module imports
numpy, and modules that need it, only in functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from softib.iba.constants import CapMask, Method, MgmtClass, SmpAttr
from softib.plural import counted
from softib.result import HIDDEN, Result

if TYPE_CHECKING:
    from softib.sm.database import Database

__all__ = ["SHOWN", "SweepCounts", "SweepReport", "attribute_name"]

PS_PER_S = 1e12
SHOWN = 20


@dataclass
class SweepCounts(Result):
    """Results of a sweep, and the MADs that it sent."""

    nodes: int = 0
    switches: int = 0
    cas: int = 0
    links: int = 0
    lids: int = 0
    mads: dict[str, int] = field(default_factory=dict)
    """Method and attribute (``Get NODE_INFO``) → number of requests sent, without retries."""
    retries: int = 0
    timeouts: int = 0
    strays: int = 0
    """Unexpected answers."""

    @property
    def sent(self) -> int:
        """Requests sent, without retries."""
        return sum(self.mads.values())

    @property
    def sets(self) -> int:
        """Requests that change something."""
        return sum(n for kind, n in self.mads.items() if kind.startswith("Set "))


@dataclass
class SweepReport(SweepCounts):
    """Counts of one sweep. Times are those that the caller passes (``now_ps``): virtual if the
    fabric is in the same process, real on hardware.

    ``duplicates``: (NodeGUID, port at whose other end a second device has this GUID).
    ``silent_ports``: (port, reason) of each port that is up but leads to no usable device.
    ``mute_ports`` and ``mute_nodes``: devices that stopped answering. ``wrong_answers``: (NodeGUID,
    message) of devices with contradictory answers (:mod:`~softib.sm.sweep.wrong_answers`).
    ``locked``: ports that hide their M_Key from this manager. Ports are rows of the manager's
    database, -1 = the manager's own.
    """

    refused: dict[str, int] = field(default_factory=dict, metadata=HIDDEN)
    duplicates: list[tuple[int, int]] = field(default_factory=list, metadata=HIDDEN)
    silent_ports: list[tuple[int, str]] = field(default_factory=list, metadata=HIDDEN)
    mute_ports: list[tuple[int, str]] = field(default_factory=list, metadata=HIDDEN)
    mute_nodes: list[tuple[int, str, str]] = field(default_factory=list, metadata=HIDDEN)
    wrong_answers: list[tuple[int, str]] = field(default_factory=list, metadata=HIDDEN)
    not_active: list[int] = field(default_factory=list, metadata=HIDDEN)
    locked: list[int] = field(default_factory=list, metadata=HIDDEN)
    phase_s: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase."""
    sls: list[Any] = field(default_factory=list, metadata=HIDDEN)
    """:class:`~softib.sm.managers.sl2vl.SlTrouble` for each SL in use that a port drops or starves."""
    tables_change: str = "unchanged"
    """Whether a credit loop can form while forwarding tables change: acyclic, loop, loops-by-itself
    or unchanged. If this is unknown, the reason: unknown-sls, sl2vl-changes, too-large or
    unknown-tables (:attr:`softib.sm.tables.lft_plan.LftPlan.state`)."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list, metadata=HIDDEN)

    def count(self, built: dict[tuple[int, int], int]) -> None:
        """Add the numbers of requests that were built."""
        self.mads = {f"{Method(m).name.title()} {attribute_name(a)}": n for (m, a), n in sorted(built.items())}

    def count_subnet(self, db: Database) -> None:
        """Count the subnet, once LIDs are assigned."""
        import numpy as np

        from softib.iba.smp import PortInfo

        self.nodes, self.switches = db.n_nodes, int(db.is_switch.sum())
        self.cas = self.nodes - self.switches
        peer = db.port_peer
        rows = np.flatnonzero(peer >= 0)
        self.links = int((rows <= peer[rows]).sum())
        self.lids = int((1 << db.port_lmc[db.end_ports()].astype(np.int64)).sum())
        is_sm = (PortInfo.cap_mask.get(db.port_info) & CapMask.IS_SM) > 0
        is_sm[db.sm_port] = False
        self.notes += [f"{db.port_name(p)} has IsSM set" for p in np.flatnonzero(is_sm).tolist()]

    def describe(self, db: Database) -> None:
        """Convert the errors into ``problems``, with one line each and at most 20 of a kind.
        Problems of devices and ports that the sweep did not bring up are also listed in
        ``left_out``."""
        lines: list[str] = []
        _some(
            lines,
            [
                f"NodeGUID {guid:#018x} is on two devices: {_where(db, db.node_of(guid))} and behind"
                f" {_behind(db, port)}; the second one is left out"
                for guid, port in self.duplicates
            ],
        )
        _some(
            lines, [f"behind {_behind(db, port)}: {why}; nothing there is managed" for port, why in self.silent_ports]
        )
        _some(lines, [f"{_where(db, node)}: {attr} {why}" for node, attr, why in self.mute_nodes])
        _some(lines, [f"{db.port_name(port)}: PORT_INFO {why}" for port, why in self.mute_ports])
        _some(
            lines,
            [
                f"{db.port_name(port)}: holds an M_Key unknown to this manager; set it with m_key, or with the "
                f"line"
                f" '{int(db.port_guid[port]):#018x} KEY' of guid2mkey"
                for port in self.locked
            ],
        )
        _some(lines, [f"{db.port_name(port)}: cabled, but not ACTIVE" for port in self.not_active])
        wrong: list[str] = []
        named = [(db.node_of(guid), guid, text) for guid, text in dict.fromkeys(self.wrong_answers)]
        _some(wrong, [f"{_where(db, n) if n >= 0 else f'{guid:#018x}'}: {text}" for n, guid, text in named])
        self.left_out = lines
        lines = [*lines, *wrong]
        lines += [f"{kind} was refused {counted(n, 'time')}" for kind, n in sorted(self.refused.items())]
        self.problems = lines


def attribute_name(kind: int) -> str:
    """Return the name of an SMP's attribute, or of class and attribute of a GMP
    (:func:`~softib.mad.gmp_requests.kind_of`)."""
    if kind < 1 << 16:
        return SmpAttr(kind).name
    return _gmp_names().get(kind, f"{MgmtClass(kind >> 16).name} {kind & 0xFFFF:#04x}")


@cache
def _gmp_names() -> dict[int, str]:
    from softib.iba import cc
    from softib.iba.vendor import sharp
    from softib.mad.gmp_requests import kind_of

    return {
        kind_of(mgmt_class, structure.attr or 0): f"{mgmt_class.name} {structure.__name__}"
        for mgmt_class, structures in (
            (MgmtClass.CONG_CTRL, (cc.SwitchCongestionSetting, cc.CACongestionSetting, cc.CongestionControlTable)),
            (
                MgmtClass.SHARP,
                (sharp.ANInfo, sharp.QPAllocation, sharp.QPCConfig, sharp.TreeConfig, sharp.QuotaConfig),
            ),
        )
        for structure in structures
    }


def _some(lines: list[str], new: list[str]) -> None:
    lines += new[:SHOWN]
    if len(new) > SHOWN:
        lines.append(f"… and {len(new) - SHOWN} more of this kind")


def _where(db: Database, node: int) -> str:
    return db.name(node)


def _behind(db: Database, port: int) -> str:
    return db.port_name(port) if port >= 0 else "the manager's own port"
