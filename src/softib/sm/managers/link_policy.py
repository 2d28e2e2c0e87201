"""The widths, speeds and FEC modes that are enabled for training: OpenSM's ``force_link_…`` and
``fdr10``, and a file of rules by port (IBA 14.2.5.6, 7.2.7).

LinkWidthEnabled and the LinkSpeed…Enabled components are set if they differ. If a link would then
train to another rate, it is trained again once: PortPhysState becomes Polling at one end. (OpenSM
sets the components, but leaves the link unchanged until it fails.) The manager's own link is not
trained again.

FDR10 and FEC are in Mellanox' ExtendedPortInfo (0xff90) and in PortInfoExtended (0x33, IBA
14.2.5.19). ``fdr10`` (``opensm/osm_link_mgr.c``): 1 enables FDR10 if a port supports it, 2
disables it; a Set has StateChangeEnable 1.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from softib.iba.constants import CapMask2, PhysState, SmpAttr
from softib.iba.smp import MlnxExtPortInfo, PortInfo, PortInfoExtended
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.managers.link_mgr import linked, unchanged
from softib.sm.options.link import ALL_EXT, ALL_SPEEDS, ALL_WIDTHS, EXT_NONE, FDR10_OFF, FDR10_ON, LinkPolicy, LinkRule

__all__ = ["EXTENSIONS", "HeldExtensions", "LinkExtensions", "LinkPolicyManager", "ports_of"]

P = PortInfo
COMPONENTS = {
    "width": (P.link_width_enabled, P.link_width_supported, ALL_WIDTHS),
    "speed": (P.link_speed_enabled, P.link_speed_supported, ALL_SPEEDS),
    "ext": (P.link_speed_ext_enabled, P.link_speed_ext_supported, ALL_EXT),
    "ext2": (P.link_speed_ext2_enabled, P.link_speed_ext2_supported, 7),
}
"""Component of a rule → its fields of PortInfo, and the value that enables everything supported."""


class LinkPolicyManager:
    """The manager's work in one sweep: :meth:`queue_enabled` is called before all other phases,
    :meth:`queue_training` at the end. ``trained`` is kept between sweeps: (NodeGUID, portnum) → the
    width and speed for which the port's link was trained again."""

    def __init__(self, db: Database, policy: LinkPolicy, trained: dict[tuple[int, int], tuple[int, int]]):
        self.db, self.trained = db, trained
        self.notes: list[str] = []
        self.rows = linked(db)
        self.wanted = {name: enabled.get(db.port_info).copy() for name, (enabled, _, _) in COMPONENTS.items()}
        for rule in policy.rules:
            self._apply(rule)

    def _apply(self, rule: LinkRule) -> None:
        info, rows = self.db.port_info, ports_of(self.db, self.rows, rule)
        for component, (_, supported, everything) in COMPONENTS.items():
            can, value = supported.get(info[rows]), getattr(rule, component)
            if component == "ext" and value == EXT_NONE:
                self.wanted[component][rows] = np.where(can > 0, EXT_NONE, self.wanted[component][rows])
            elif value:
                bits = can if value == everything else can & value
                # If a port supports none of the values, the component keeps its value: 0 would also mean no change.
                self.wanted[component][rows] = np.where(bits > 0, bits, self.wanted[component][rows])

    def queue_enabled(self, queue: RequestQueue) -> None:
        """Queue a Set(PortInfo) for each port whose Enabled components differ from the target. Tags are
        ports."""
        held = self.db.port_info[self.rows]
        change = np.zeros(len(self.rows), bool)
        for name, (field, _, _) in COMPONENTS.items():
            change |= field.get(held) != self.wanted[name][self.rows]
        rows = self.rows[change]
        image = unchanged(self.db.port_info[rows])
        for name, (field, _, _) in COMPONENTS.items():
            field.set(image, self.wanted[name][rows])
        queue.set(SmpAttr.PORT_INFO, self.db.port_route[rows], rows, self.db.port_modifier(rows), image)

    def queue_training(self, queue: RequestQueue, also: np.ndarray) -> np.ndarray:
        """Queue a Set(PortInfo) that trains a link again, for each link for which the enabled
        components of both ends give another width or speed than the active one, and for the ports
        in ``also``. Return these ports."""
        db = self.db
        rows = self.rows[self.rows < db.port_peer[self.rows]]
        peer = db.port_peer[rows]
        ours, theirs = db.port_info[rows], db.port_info[peer]
        width, speed = _agreed(ours, theirs)
        active = _speed(
            P.link_speed_active.get(ours), P.link_speed_ext_active.get(ours), P.link_speed_ext2_active.get(ours)
        )
        differ = ((width > 0) & (width != P.link_width_active.get(ours))) | ((speed > 0) & (speed != active))
        differ &= (rows != db.sm_port) & (peer != db.sm_port)
        out = []
        for i in np.flatnonzero(differ).tolist():
            port, goal = int(rows[i]), (int(width[i]), int(speed[i]))
            port = port if db.external[port] else int(peer[i])
            place = db.location(port)
            if self.trained.get(place) == goal:
                self.notes.append(
                    f"{db.port_name(port)}: its link was trained again, and still differs from the link policy"
                )
            elif db.external[port]:
                self.trained[place] = goal
                out.append(port)
        ports = np.union1d(np.array(out, np.int64), also)
        image = unchanged(db.port_info[ports])
        P.port_phys_state.set(image, int(PhysState.POLLING))
        queue.set(SmpAttr.PORT_INFO, db.port_route[ports], ports, db.port_modifier(ports), image)
        return ports


def _agreed(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (width bit, speed as in :func:`_speed`) to which two ends (uint8[n, 64]) train
    with their enabled components; 0 = they have none in common."""
    both = lambda field, off=0: np.where(
        (field.get(ours) == off) | (field.get(theirs) == off), 0, field.get(ours) & field.get(theirs)
    )
    widths = both(P.link_width_enabled)
    width = np.zeros(len(ours), np.int64)
    for bit in (1, 16, 2, 4, 8):  # 1x, 2x, 4x, 8x, 12x
        width = np.where(widths & bit, bit, width)
    top = lambda bits: np.where(bits > 0, 1 << np.floor(np.log2(np.maximum(bits, 1))).astype(np.int64), 0)
    ext = both(P.link_speed_ext_enabled, EXT_NONE)
    speed = _speed(top(both(P.link_speed_enabled)), top(ext & 15), top(both(P.link_speed_ext2_enabled) & 3))
    return width, speed


def _speed(base: np.ndarray, ext: np.ndarray, ext2: np.ndarray) -> np.ndarray:
    """Return one number per speed; a larger number is faster."""
    return np.where(ext2 > 0, ext2.astype(np.int64) << 16, np.where(ext > 0, ext.astype(np.int64) << 8, base))


def ports_of(db: Database, rows: np.ndarray, rule: LinkRule) -> np.ndarray:
    """Return the ports of ``rows`` that match the rule."""
    owners = np.unique(db.port_node[rows])
    fits = [
        n
        for n in owners.tolist()
        if fnmatchcase(db.name(n), rule.node) or rule.node.lower() == f"{int(db.node_guid[n]):#018x}"
    ]
    rows = rows[np.isin(db.port_node[rows], fits)]
    return rows[np.isin(db.port_num[rows], sorted(rule.portnums))] if rule.portnums else rows


EXTENDED, FEC = int(SmpAttr.MLNX_EXT_PORT_INFO), int(SmpAttr.PORT_INFO_EXT)
EXTENSIONS = (EXTENDED, FEC)
GENERATIONS = ("fdr", "edr", "hdr", "ndr")
HeldExtensions = dict[tuple[int, int, int], np.ndarray]
"""(NodeGUID, portnum, attribute) → value of a port."""


class LinkExtensions:
    """The manager's work in one sweep: :meth:`ask`, :meth:`heard`, :meth:`queue`. ``held`` is kept
    between sweeps; ports in it are not read again."""

    def __init__(self, db: Database, policy: LinkPolicy, held: HeldExtensions):
        self.db, self.held = db, held
        self.fdr10, self.fec = np.zeros(db.n_ports, np.uint8), np.zeros(db.n_ports, np.uint16)
        self.trains: list[int] = []
        """Ports whose link must be trained again."""
        rows = linked(db)
        for rule in policy.rules:
            if rule.fdr10 or rule.fec:
                fits = ports_of(db, rows, rule)
                self.fdr10[fits] = rule.fdr10 or self.fdr10[fits]
                self.fec[fits] = rule.fec or self.fec[fits]

    def _wanted(self) -> list[tuple[int, np.ndarray]]:
        """Return the attribute, and the ports that have it and a target value for it."""
        db = self.db
        node = db.port_node
        end = np.where(db.is_switch[node], db.node_base[node], np.arange(db.n_ports))
        extended = PortInfo.cap_mask2.get(db.port_info[end]) & int(CapMask2.PORT_INFO_EXT) > 0
        return [
            (EXTENDED, np.flatnonzero((self.fdr10 > 0) & db.is_mellanox[node])),
            (FEC, np.flatnonzero((self.fec > 0) & extended)),
        ]

    def _key(self, port: int, attr: int) -> tuple[int, int, int]:
        return *self.db.location(port), attr

    def ask(self, queue: RequestQueue) -> None:
        """Queue a Get for each port with an unknown value. Tags are ports."""
        for attr, ports in self._wanted():
            rows = np.array([p for p in ports.tolist() if self._key(p, attr) not in self.held], np.int64)
            queue.get(attr, self.db.port_route[rows], rows, self.db.port_num[rows])

    def heard(self, attr: int, ports: np.ndarray, data: np.ndarray) -> None:
        """Store answers (uint8[n, 64]) to a Get or a Set."""
        for port, image in zip(ports.tolist(), data, strict=True):
            self.held[self._key(port, attr)] = image.copy()

    def lost(self, attr: int, ports: np.ndarray) -> None:
        """Mark the values of these ports as unknown."""
        for port in ports.tolist():
            self.held.pop(self._key(port, attr), None)

    def queue(self, queue: RequestQueue) -> None:
        """Queue a Set for each port that differs from the target."""
        for attr, ports in self._wanted():
            rows = np.array([p for p in ports.tolist() if self._key(p, attr) in self.held], np.int64)
            if not len(rows):
                continue
            held = np.stack([self.held[self._key(p, attr)] for p in rows.tolist()])
            wanted = self._fdr10(held, rows) if attr == EXTENDED else self._fec(held, rows)
            change = (wanted != held).any(axis=1)
            rows = rows[change]
            self.trains += rows.tolist()
            queue.set(attr, self.db.port_route[rows], rows, self.db.port_num[rows], wanted[change])

    def _fdr10(self, held: np.ndarray, ports: np.ndarray) -> np.ndarray:
        X = MlnxExtPortInfo
        wanted, can = held.copy(), X.link_speed_supported.get(held) & 1
        choice = self.fdr10[ports]
        enabled = np.where(choice == FDR10_ON, 1, np.where(choice == FDR10_OFF, 0, X.link_speed_enabled.get(held)))
        enabled = np.where(can > 0, enabled, X.link_speed_enabled.get(held))
        X.link_speed_enabled.set(wanted, enabled)
        X.state_change_enable.set(wanted, (enabled != X.link_speed_enabled.get(held)).astype(np.uint8))
        return wanted

    def _fec(self, held: np.ndarray, ports: np.ndarray) -> np.ndarray:
        wanted = held.copy()
        for name in GENERATIONS:
            supported = PortInfoExtended.fields[f"{name}_fec_mode_supported"].get(held)
            enabled = PortInfoExtended.fields[f"{name}_fec_mode_enabled"]
            modes = supported & self.fec[ports]
            # If a generation supports none of the wanted modes, its modes are kept, because it
            # could not train if none were enabled.
            enabled.set(wanted, np.where(modes > 0, modes, enabled.get(held)))
        return wanted

    def training(self) -> np.ndarray:
        """Return the switch ports that start training, one for each link in :attr:`trains`."""
        db = self.db
        out = set()
        for port in self.trains:
            peer = int(db.port_peer[port])
            if peer < 0 or db.sm_port in (port, peer):
                continue
            ends = [p for p in (port, peer) if db.external[p]]
            out.add(min(ends)) if ends else None
        return np.array(sorted(out), np.int64)
