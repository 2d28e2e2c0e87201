"""The input ``umad:DEVICE``: a subnet, read as a fabric. Only Gets are sent: for discovery, for forwarding, P_Key and
SL2VL tables, and for the subnet managers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softib.errors import MadTimeout
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric, Source
from softib.iba.constants import LFT_BLOCK, LFT_NO_ROUTE, PKEY_BLOCK, CapMask, PhysState, SmpAttr
from softib.iba.smp import NodeInfo, PortInfo, SMInfo, SwitchInfo
from softib.live.clock import clock_ps
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.devices import find_device
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import NO_ANSWER, MadWire, Pacing, keyed
from softib.mad.batch import MadBatch
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import Transactor
from softib.ragged import spread
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.ha.election import SmState
from softib.sm.sa.inventory import pkey_blocks
from softib.sm.sweep.discovery import Discovery
from softib.sm.sweep.report import SweepReport
from softib.sm.sweep.request_window import by_attribute

__all__ = [
    "PREFIX",
    "Progress",
    "Subnet",
    "SubnetReader",
    "fabric_of",
    "manager_of",
    "read",
    "read_nodes",
    "read_subnet",
    "read_wire",
]


SL2VL_MOST = 50_000
"""Maximum number of SL2VL tables (one per pair of input and output port of a switch) that are read, since each needs a
Get. If a subnet has more, none is read."""
ENTRIES_A_SWITCH = 1 << 16
Progress = Callable[[str, int, int], None]
"""Called with the phase of the reading, the number of nodes found, and the number of MADs sent."""
Heard = Callable[[int, np.ndarray, np.ndarray], None]
Lost = Callable[[int, np.ndarray, str], None]


@dataclass
class Subnet:
    """Data read from a subnet. ``lft`` uint8[switches, LIDs] in the order of ``switches`` (nodes of ``db``);
    ``pkeys``: (port row, first entry, block); ``sl2vl``: (output port row, input portnum, 8 bytes); ``others``: SMInfo
    by port row; ``mads``: number of MADs sent."""

    db: Database = field(default_factory=Database)
    report: SweepReport = field(default_factory=SweepReport)
    switches: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    lft: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    pkeys: list[tuple[int, int, np.ndarray]] = field(default_factory=list)
    sl2vl: list[tuple[int, int, np.ndarray]] = field(default_factory=list)
    others: dict[int, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mads: int = 0


class SubnetReader:
    """Reads a subnet over ``wire`` into :attr:`subnet`."""

    def __init__(self, wire: MadWire, config: SmConfig, progress: Progress):
        self.wire, self.config, self.progress = wire, config, progress
        self.subnet = Subnet()
        self.queue = RequestQueue(self.subnet.db.routes, config.mkey)
        self.transactor = Transactor(config.window, config.timeout_ps, config.retries)
        self.pacing = Pacing(self.transactor)

    def drive(self, phase: str, heard: Heard, lost: Lost = lambda attr, tags, why: None) -> None:
        """Send queued requests, including those that answers add, until all are answered or
        abandoned."""
        t, queue = self.transactor, self.queue
        inbox: MadBatch | None = None
        while len(queue) or t.busy:
            now_ps = clock_ps()
            t.receive(now_ps, inbox)
            for done in t.completed():
                for answers in by_attribute(done):
                    if answers.data is None:
                        lost(answers.attr, answers.tags, "is refused" if answers.refused else "is not answered")
                    else:
                        heard(answers.attr, answers.tags, answers.data)
            while t.room > 0 and len(queue):
                t.submit(*queue.take(t.room))
            inbox = self.pacing.exchange(self.wire, now_ps)
            self.progress(phase, self.subnet.db.n_nodes, t.sent)

    # -- the phases --

    def nodes(self) -> None:
        """Read nodes and cables, with the discovery of softib's subnet manager, except that trap bits are not
        cleared."""
        s = self.subnet
        discovery = Discovery(s.db, self.queue, s.report, self.config)
        discovery.start()
        self.drive("discover", discovery.handle, discovery.lost)
        discovery.finish()

    def managers(self) -> None:
        """Read SMInfo from every port with IsSM set, including the reader's port: the manager may run on the same
        machine."""
        db, others = self.subnet.db, self.subnet.others
        says = (PortInfo.cap_mask.get(db.port_info) & CapMask.IS_SM > 0) & db.has_port_info & (db.port_route >= 0)
        ports = np.flatnonzero(says)
        others.update(self._sm_infos(db.port_route[ports], ports))

    def manager_here(self) -> np.ndarray | None:
        """Return SMInfo of the manager on the reader's port; None if it does not answer."""
        route = self.subnet.db.routes.add_local()
        return self._sm_infos(np.array([route], np.int32), np.zeros(1, np.int64)).get(0)

    def _sm_infos(self, routes: np.ndarray, tags: np.ndarray) -> dict[int, np.ndarray]:
        infos: dict[int, np.ndarray] = {}
        self.queue.get(SmpAttr.SM_INFO, routes, tags)

        def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
            infos.update(zip(tags.tolist(), data.copy(), strict=True))

        self.drive("managers", heard)
        return infos

    def tables(self) -> None:
        """Read forwarding tables, up to the LinearFDBTop of each switch."""
        s, db = self.subnet, self.subnet.db
        s.switches = nodes = db.switches
        top = SwitchInfo.linear_fdb_top.get(db.switch_info[nodes]).astype(np.int64)
        blocks = np.where(top > 0, top // LFT_BLOCK + 1, 0)
        most = int(blocks.max(initial=0))
        s.lft = np.full((len(nodes), most * LFT_BLOCK), LFT_NO_ROUTE, np.uint8)
        rows, block = spread(blocks)
        self.queue.get(SmpAttr.LFT, db.port_route[db.node_base[nodes[rows]]], rows * ENTRIES_A_SWITCH + block, block)

        def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
            s.lft.reshape(len(nodes), most, LFT_BLOCK)[tags // ENTRIES_A_SWITCH, tags % ENTRIES_A_SWITCH] = data

        self.drive("forwarding tables", heard, self._lost("LFT", nodes, ENTRIES_A_SWITCH))

    def pkeys(self) -> None:
        """Read the P_Key tables of end ports. The next block is read if the previous one is full."""
        s, db = self.subnet, self.subnet.db
        ports = db.end_ports()
        caps = dict(zip(ports.tolist(), pkey_blocks(db, ports).tolist(), strict=True))

        def ask(rows: np.ndarray, block: int) -> None:
            rows = np.array([p for p in rows.tolist() if caps[p] > block], np.int64)
            self.queue.get(SmpAttr.PKEY_TABLE, db.port_route[rows], rows << 16 | block, block)

        def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
            for tag, row in zip(tags.tolist(), data, strict=True):
                entries = row.view(">u2")[:PKEY_BLOCK].astype(np.uint16)
                s.pkeys.append((tag >> 16, (tag & 0xFFFF) * PKEY_BLOCK, entries))
                if entries[-1]:
                    ask(np.array([tag >> 16]), (tag & 0xFFFF) + 1)

        ask(ports, 0)
        self.drive("P_Key tables", heard, self._lost("P_KeyTable", db.port_node, 1 << 16))

    def pkey_tables(self, ports: np.ndarray) -> dict[int, np.ndarray]:
        """Return complete P_Key tables (uint16[entries]) by port row, for those of ``ports`` that answered completely
        and have not moved since discovery. A switch's external port has a table if the switch enforces partitions."""
        db = self.subnet.db
        blocks = pkey_blocks(db, ports)
        tables = {p: np.zeros((n, PKEY_BLOCK), np.uint16) for p, n in zip(ports.tolist(), blocks.tolist(), strict=True)}
        rows, block = np.repeat(ports, blocks), spread(blocks)[1]
        number = np.where(db.external[rows], db.port_num[rows], 0).astype(np.int64)
        self.queue.get(SmpAttr.NODE_INFO, db.port_route[ports], ports)
        self.queue.get(SmpAttr.PKEY_TABLE, db.port_route[rows], rows << 16 | block, block | number << 16)

        def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
            if attr == SmpAttr.NODE_INFO:
                moved = NodeInfo.node_guid.get(data) != db.node_guid[db.port_node[tags]]
                lost(attr, tags[moved], "is another node")
                return
            for tag, row in zip(tags.tolist(), data, strict=True):
                if (table := tables.get(tag >> 16)) is not None:
                    table[tag & 0xFFFF] = row.view(">u2")

        def lost(attr: int, tags: np.ndarray, why: str) -> None:
            for tag in tags.tolist():
                tables.pop(tag if attr == SmpAttr.NODE_INFO else tag >> 16, None)

        self.drive("P_Key tables", heard, lost)
        return {port: table.ravel() for port, table in tables.items()}

    def sl2vl(self) -> None:
        """Read SL2VL tables between cabled ports of switches, and of cabled CA ports."""
        s, db = self.subnet, self.subnet.db
        linked = np.flatnonzero(db.port_peer >= 0)
        out = linked[db.external[linked]]
        of_node = {n: out[db.port_node[out] == n] for n in np.unique(db.port_node[out]).tolist()}
        if sum(len(p) * (len(p) + 1) for p in of_node.values()) > SL2VL_MOST:
            s.notes.append("SL2VL tables were not read, because this takes more than 50,000 Gets")
            return
        ends = linked[~db.is_switch[db.port_node[linked]]]
        pairs = [(p, i) for rows in of_node.values() for p in rows.tolist() for i in (0, *db.port_num[rows].tolist())]
        pairs += [(p, 0) for p in ends.tolist()]
        if not pairs:
            return
        port, source = (np.array(c, np.int64) for c in zip(*pairs, strict=True))
        number = np.where(db.is_switch[db.port_node[port]], db.port_num[port], 0)
        self.queue.get(SmpAttr.SL2VL, db.port_route[port], port << 8 | source, source << 8 | number)

        def heard(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
            s.sl2vl += [(t >> 8, t & 0xFF, row[:8].copy()) for t, row in zip(tags.tolist(), data, strict=True)]

        self.drive("SL2VL tables", heard, self._lost("SLtoVLMappingTable", db.port_node, 256))

    def _lost(self, table: str, owner: np.ndarray, unit: int) -> Lost:
        """Record a problem: ``table`` of a node cannot be read completely."""

        def lost(attr: int, tags: np.ndarray, why: str) -> None:
            nodes = np.unique(owner[tags // unit]).tolist()
            self.subnet.report.mute_nodes.extend((n, table, why) for n in nodes)

        return lost


def read_subnet(
    wire: MadWire, config: SmConfig | None = None, progress: Progress = lambda phase, nodes, mads: None
) -> Subnet:
    """Return everything that can be read with Gets from the port of ``wire``. Devices that do not answer are in
    ``report.problems``."""
    reader = SubnetReader(wire, config or SmConfig(), progress)
    reader.nodes()
    if reader.subnet.db.sm_port >= 0:
        reader.managers()
        reader.tables()
        reader.pkeys()
        reader.sl2vl()
    s = reader.subnet
    s.mads = reader.transactor.sent
    s.report.mute_nodes[:] = list(dict.fromkeys(s.report.mute_nodes))
    s.report.describe(s.db)
    return s


def read_nodes(
    wire: MadWire, config: SmConfig | None = None, progress: Progress = lambda phase, nodes, mads: None
) -> Subnet:
    """Read only nodes, ports, cables and managers, without any table."""
    reader = SubnetReader(wire, config or SmConfig(), progress)
    reader.nodes()
    if reader.subnet.db.sm_port >= 0:
        reader.managers()
    reader.subnet.mads = reader.transactor.sent
    return reader.subnet


PREFIX = "umad:"
PROGRAMMED, BARE = "running", "umad"
"""Formats of the result. PROGRAMMED: a manager has programmed the subnet, and its tables are checked without changes.
BARE: no manager has programmed it."""
RECORDS = frozenset({"lids", "lmcs", "states", "speeds", "capabilities", "sm", "unlinked"})
MLIDS = 1024


def read(source: str, progress: Progress = lambda phase, nodes, mads: None) -> ReadResult:
    """Return the subnet of ``umad:DEVICE`` (``umad:`` without a name means the first port that is up). Only Gets
    are sent.

    Raises :class:`InputError` if there is no such device, :class:`MadTimeout` if the reader's own port does not answer.
    """
    device = find_device(source.removeprefix(PREFIX) or None)
    port = UmadPort(device, ASKS)
    try:
        return read_wire(keyed(port), source, progress, f" from {device}")
    finally:
        port.close()


def read_wire(
    wire: MadWire, source: str, progress: Progress = lambda phase, nodes, mads: None, device: str = ""
) -> ReadResult:
    """Return the subnet of an open ``wire``, under the name ``source``. Raises :class:`MadTimeout`
    if the reader's own port does not answer."""
    subnet = read_subnet(wire, None, progress)
    if subnet.db.sm_port < 0:
        raise MadTimeout(f"{source}: no subnet can be seen{device}: {NO_ANSWER}")
    fabric = fabric_of(subnet, source)
    programmed = bool(SwitchInfo.linear_fdb_top.get(fabric.switch_info).any())
    problems = [Problem(source, 0, line) for line in subnet.report.problems]
    return ReadResult(fabric, problems, PROGRAMMED if programmed else BARE, notes=subnet.notes)


def fabric_of(subnet: Subnet, name: str) -> Fabric:
    """Return the arrays of the subnet; nodes are sorted by NodeGUID, so that they do not depend on
    the order of answers."""
    db = subnet.db
    order = np.argsort(db.node_guid, kind="stable")
    node_at = np.empty(db.n_nodes, np.int64)
    node_at[order] = np.arange(db.n_nodes)
    b = FabricBuilder(name, mlids=MLIDS)
    partitions = np.asarray(NodeInfo.partition_cap.get(db.node_info))[order]
    enforced = np.where(db.is_switch, SwitchInfo.partition_enforcement_cap.get(db.switch_info), 0)[order]
    b.nodes(
        db.n_nodes,
        db.node_type[order],
        db.node_nports[order],
        node_guid=db.node_guid[order],
        sys_guid=db.sys_guid[order],
        vendor_id=db.vendor_id[order],
        device_id=db.device_id[order],
        revision=db.revision[order],
        pkey_cap=partitions,
        external_pkey_cap=enforced,
    )
    rows = np.flatnonzero(db.port_peer >= 0)
    peers = db.port_peer[rows]
    one = rows <= peers
    a, z = rows[one], peers[one]
    b.links(node_at[db.port_node[a]], db.port_num[a], node_at[db.port_node[z]], db.port_num[z])
    hosts = np.flatnonzero(~db.is_switch[db.port_node] & (db.port_guid > 0))
    b.port_guids(node_at[db.port_node[hosts]], db.port_num[hosts], db.port_guid[hosts])
    f = b.build()
    port_at = f.node_base[node_at[db.port_node]] + db.port_num.astype(np.int64)
    _images(f, db, order, port_at)
    _tables(f, subnet, node_at, port_at)
    records = RECORDS | ({"lfts"} if subnet.lft.size else frozenset())
    f.source = Source("umad", name, records, sms=_managers(subnet, node_at))
    return f


def _images(f: Fabric, db: Database, order: np.ndarray, port_at: np.ndarray) -> None:
    """Write the values that devices reported into the arrays. A port that reported nothing is set to down."""
    f.node_desc[:] = db.node_desc[order]
    heard = db.has_port_info
    f.port_info[port_at[heard]] = db.port_info[heard]
    silent = port_at[~heard & (db.port_peer < 0)]
    PortInfo.port_phys_state.set(f.port_info, int(PhysState.POLLING), silent)
    PortInfo.port_state.set(f.port_info, 1, silent)
    f.switch_info[:] = db.switch_info[order][f.switch_node]


def _tables(f: Fabric, subnet: Subnet, node_at: np.ndarray, port_at: np.ndarray) -> None:
    if subnet.lft.size:
        width = min(subnet.lft.shape[1], f.lft.shape[1])
        f.lft[f.switch_of_node[node_at[subnet.switches]], :width] = subnet.lft[:, :width]
    for row, first, entries in subnet.pkeys:
        port = int(port_at[row])
        n = max(0, min(len(entries), int(f.pkey_cap[port]) - first))
        f.pkeys[f.pkey_base[port] + first : f.pkey_base[port] + first + n] = entries[:n]
    for row, source, vls in subnet.sl2vl:
        f.sl2vl[f.sl2vl_base[port_at[row]] + source] = vls


def _managers(subnet: Subnet, node_at: np.ndarray) -> list[dict[str, object]]:
    db = subnet.db
    return [
        {
            "node": int(node_at[db.port_node[p]]),
            "portnum": int(db.port_num[p]),
            **manager_of(info),
        }
        for p, info in sorted(subnet.others.items())
    ]


def manager_of(info: np.ndarray) -> dict[str, object]:
    """Return ``priority``, ``guid`` and ``state`` of a row of ``Source.sms`` from an SMInfo."""
    return {
        "priority": int(SMInfo.priority.get(info)),
        "guid": int(SMInfo.guid.get(info)),
        "state": _state(int(SMInfo.sm_state.get(info))),
    }


def _state(value: int) -> str:
    return SmState(value).name.lower().replace("_", "") if value in set(SmState) else str(value)
