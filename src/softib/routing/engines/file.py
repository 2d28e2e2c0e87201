"""``file``: the tables of a dump, as OpenSM reads them with ``-R file -U`` (opensm(8), "File Routing Algorithm").

The dump is in the format of dump_lfts, ``opensm-lfts.dump`` or ``softib route --dump``::

    Unicast lids [0x0-0x7] of switch Lid 2 guid 0x0000000000200000 ('Switch1'):
    0x0003 012 : (Channel Adapter portguid 0x0000000000100001: 'host HCA-1')

If a destination is given by PortGUID and now has another LID, the entry applies to its present LID,
as in OpenSM. Switches that are not in the fabric are skipped; ``notes`` state how many of the
fabric's switches are missing in the dump. The engine checks nothing, so pairs may have no route,
and routes may contain loops: :mod:`softib.routing.proof.verify` reports them.
"""

from __future__ import annotations

import re

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted, plural
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.minhop import by_minhop
from softib.routing.graph import SwitchGraph

__all__ = ["route"]

_LINE = re.compile(
    r"^[^\S\n]*(?:Unicast lids.*?\bguid (0x[0-9a-fA-F]+)|(0x[0-9a-fA-F]{1,4}) (\d{1,3}) :(?:.*?portguid "
    r"(0x[0-9a-fA-F]+))?)",
    re.M,
)


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables in ``options.lfts``, or minhop's tables if it has no table of a switch in
    ``graph``."""
    rows = {int(g): s for s, g in enumerate(graph.switch_guid)}
    ends = {int(g): i for i, g in enumerate(graph.end_guid)}
    base = graph.end_lid.astype(np.int64).tolist()
    last = (graph.end_lid.astype(np.int64) + (1 << graph.end_lmc.astype(np.int64)) - 1).tolist()
    entries: list[tuple[int, int, int]] = []
    seen: set[int] = set()
    row, unknown, moved = -1, 0, 0
    for guid, lid_text, port, portguid in _LINE.findall(options.lfts):
        if guid:
            row = rows.get(int(guid, 16), -1)
            unknown += row < 0
            seen.add(row)
        elif row >= 0:
            lid = int(lid_text, 16)
            end = ends.get(int(portguid, 16), -1) if portguid else -1
            if end >= 0 and not base[end] <= lid <= last[end]:
                lid, moved = base[end], moved + 1
            if lid < graph.lft_size and int(port) <= LFT_NO_ROUTE:
                entries.append((row, lid, int(port)))
    seen.discard(-1)
    if not seen:
        why = "the dump has no table of any of the switches" if options.lfts.strip() else "no dump of tables is given"
        return by_minhop(graph, options, "file", why)
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    if entries:
        at, lids, ports = np.array(entries).T
        lft[at, lids] = ports
    return Routing("file", lft, notes=_notes(graph, len(seen), unknown, moved))


def _notes(graph: SwitchGraph, seen: int, unknown: int, moved: int) -> list[str]:
    notes = []
    if seen < graph.n_switches:
        notes.append(f"the dump has no table of {counted(graph.n_switches - seen, 'switch')}")
    if unknown:
        notes.append(
            f"{counted(unknown, 'switch')} of the dump {plural(unknown, 'is', 'are')} not in the fabric; skipped"
        )
    if moved:
        notes.append(f"{counted(moved, 'entry')} {plural(moved, 'is', 'are')} for ports whose LID has changed")
    return notes
