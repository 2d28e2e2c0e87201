"""Read ibdiagnet2's .db_csv, which contains all attributes that ibdiagnet collected. NODES and
LINKS define the fabric; the functions in :data:`SECTIONS` add the other sections. Column names are
those in ibdiagnet2's files, and :mod:`softib.fabric.formats.ibdiagnet.db_csv_columns` maps them to
components. A note lists the sections that softib does not read.

The file does not contain forwarding tables, so LinearFDBTop and MulticastFDBTop keep their values
at power-up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problems, ReadResult, read_lines, shown
from softib.fabric.formats.ibdiagnet import db_csv_config as config
from softib.fabric.formats.ibdiagnet import db_csv_hardware as hardware
from softib.fabric.formats.ibdiagnet import db_csv_health as health
from softib.fabric.formats.ibdiagnet.csv_sections import Section, SectionWriter, read_sections
from softib.fabric.formats.records import UNKNOWN, Records, bounded_ports
from softib.fabric.formats.resolve import named, to_fabric
from softib.iba.constants import NodeType
from softib.plural import counted

__all__ = ["SECTIONS", "read"]

SECTIONS: dict[str, Callable[[SectionWriter, Section], None]] = {
    "PORTS": config.ports,
    "EXTENDED_PORT_INFO": config.extended_port_info,
    "SWITCHES": config.switches,
    "SM_INFO": config.sms,
    "PKEY": config.pkeys,
    "PORT_HIERARCHY_INFO": config.port_labels,
    "PM_INFO": health.counters,
    "PM_DELTA": health.deltas,
    "TEMP_SENSING": health.temperatures,
    "POWER_SUPPLIES": hardware.power_supplies,
    "FANS_SPEED": hardware.fans,
    "CABLE_INFO": health.cables,
    "FEC_MODE": health.fec,
    "PORT_INFO_EXTENDED": health.fec_extended,
    "NODES_INFO": health.firmware,
    "GENERAL_INFO_SMP": health.firmware,
    "AR_INFO": health.adaptive_routing,
}
"""Section → the function that writes it into the fabric. Sections are read in this order.
``WARNINGS_*`` and ``ERRORS_*`` are read too."""
_REPORTED = ("WARNINGS_", "ERRORS_")
_ABOUT_THE_RUN = ("RUN_INFO", "PLUGINS_INFO", "STAGE_PERF_INFO", "INDEX_TABLE")
"""Sections about ibdiagnet itself, which softib does not need."""
_NODES = (
    "NodeDesc",
    "NumPorts",
    "NodeType",
    "SystemImageGUID",
    "NodeGUID",
    "PortGUID",
    "DeviceID",
    "revision",
    "VendorID",
)
_LINKS = ("NodeGuid1", "PortNum1", "NodeGuid2", "PortNum2")
MLIDS_MAX = 0x3FFF
NAMED = 30
"""Maximum number of sections that a note names."""


def read(path: Path, *, ibnl_dirs: Any = (), node_name_map: Any = None) -> ReadResult:
    """Read a .db_csv. Raises :class:`UnreadableFile` if there is no readable NODES section."""
    problems = Problems(str(path))
    lines = read_lines(path, problems)
    sections, rows_of = read_sections(
        lines, lambda name: name in SECTIONS or name in ("NODES", "LINKS") or name.startswith(_REPORTED), problems
    )
    nodes = sections.get("NODES")
    if nodes is None or not nodes.has(*_NODES) or not nodes.rows:
        raise UnreadableFile(
            f"{problems.file}: no readable NODES section" + (f"; first: {problems[0]}" if problems else "")
        )
    records = Records(both_ends_in_one_line=True, file=problems.file)
    index = _nodes(records, nodes, problems)
    _links(records, sections.get("LINKS"), index, len(lines), problems)
    _table_lengths(records, sections, index, problems)
    switches = sections.get("SWITCHES")
    mlids = 1024
    if switches is not None and switches.has("MCastFDBCap") and switches.rows:
        mlids = int(np.clip(switches.column("MCastFDBCap", Problems("")).max(), mlids, MLIDS_MAX))
    result = to_fabric(records, path, "db_csv", problems, mlids=mlids)
    writer = SectionWriter(result.fabric, problems)
    for name, write in SECTIONS.items():
        if name in sections and sections[name].header:
            write(writer, sections[name])
    health.reported(writer, [s for n, s in sections.items() if n.startswith(_REPORTED) and s.header])
    result.fabric.source.records |= writer.records
    result.extra.update(writer.extra)
    result.notes += _skipped(rows_of, sections)
    problems.sort(key=lambda p: p.line)
    return named(result, node_name_map)


def _skipped(rows_of: dict[str, int], sections: dict[str, Section]) -> list[str]:
    """Return a note that names each section that has rows and that softib does not read."""
    left = {n: k for n, k in rows_of.items() if k > 0 and n not in sections and n not in _ABOUT_THE_RUN}
    named = [f"{shown(n)[1:-1]} ({counted(k, 'row')})" for n, k in list(left.items())[:NAMED]]
    rest = [f"{len(left) - NAMED} more"] if len(left) > NAMED else []
    return [f"sections that softib does not read: {', '.join([*named, *rest])}"] if left else []


def _table_lengths(r: Records, sections: dict[str, Section], index: dict[int, int], problems: Problems) -> None:
    """Write the lengths of P_Key and GUID tables into ``r``: PartitionCap, GUIDCap and
    PartitionEnforcementCap."""
    for section, guid, column, target, most in (
        ("NODES", "NodeGUID", "PartitionCap", r.pkey_cap, config.PKEYS_MAX),
        ("SWITCHES", "NodeGUID", "PartEnfCap", r.external_pkey_cap, config.PKEYS_MAX),
        ("PORTS", "NodeGuid", "GUIDCap", r.guid_cap, 255),
    ):
        s = sections.get(section)
        if s is None or not s.has(guid, column):
            continue
        quiet = Problems("")  # the function of the section reports the same problems
        for i, (g, cap) in enumerate(
            zip(s.column(guid, quiet, np.uint64).tolist(), s.column(column, quiet).tolist(), strict=True)
        ):
            node = index.get(g)
            if node is None or cap == 0 or cap == UNKNOWN:
                continue
            if 0 < cap <= most:
                target[node] = max(target[node], cap)
            else:
                problems.add(
                    s.lines[i],
                    f"{section}: {column} {cap}: softib supports tables of 1 to {most} entries; using the default "
                    f"length",
                )


def _nodes(r: Records, s: Section, problems: Problems) -> dict[int, int]:
    """Write NODES into ``r``; return the node of each NodeGUID."""
    c = {n: s.column(n, problems) for n in ("NumPorts", "NodeType", "DeviceID", "revision", "VendorID")}
    guid, sys_guid = (s.column(n, problems, np.uint64) for n in ("NodeGUID", "SystemImageGUID"))
    index: dict[int, int] = {}
    for i, desc in enumerate(s.text("NodeDesc")):
        line, kind = s.lines[i], int(c["NodeType"][i])
        if kind not in (NodeType.CA, NodeType.SWITCH, NodeType.ROUTER):
            problems.add(line, f"NodeType {kind} of {shown(desc)} is not 1 (CA), 2 (switch) or 3 (router); left out")
            continue
        node = r.add_node(
            f"{int(guid[i]):016x}",
            kind,
            bounded_ports(int(c["NumPorts"][i]), line, problems),
            line,
            desc=desc,
            node_guid=int(guid[i]),
            sys_guid=int(sys_guid[i]),
            vendor_id=int(c["VendorID"][i]) & 0xFFFFFF,
            device_id=int(c["DeviceID"][i]) & 0xFFFF,
            revision=int(c["revision"][i]) & 0xFFFFFFFF,
        )
        index.setdefault(int(guid[i]), node)
    return index


def _links(r: Records, s: Section | None, index: dict[int, int], last: int, problems: Problems) -> None:
    if s is None or not s.has(*_LINKS):
        problems.add(last, "no readable LINKS section: the fabric has no cables")
        return
    add = r.port_adder()
    ends = [
        (s.column(f"NodeGuid{k}", problems, np.uint64).tolist(), s.column(f"PortNum{k}", problems).tolist())
        for k in (1, 2)
    ]
    for i, line in enumerate(s.lines):
        pair = [(guids[i], nums[i]) for guids, nums in ends]
        if not any(guid in index for guid, _ in pair):
            problems.add(line, f"link between nodes that are not in NODES: {pair[0][0]:#018x} and {pair[1][0]:#018x}")
            continue
        for (guid, num), (peer_guid, peer_num) in (pair, pair[::-1]):
            node = index.get(guid)
            if node is not None:
                add(
                    node, num, f"{peer_guid:016x}", peer_num, line, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0
                )
