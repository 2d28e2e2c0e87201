"""Words that are no names in softib, what to say instead, and the names that stay nevertheless."""

from __future__ import annotations

RETIRED = {
    "told": "known, stated, reported, written, reply, event: whichever it is",
    "tell": "report, announce, notify",
    "tells": "reports, states",
    "said": "output, text, reply, name",
    "asked": "request, query, wanted",
    "words": "fields, arguments, names, text; a number of 4-byte units is dwords",
    "way": "path, direction, route_key, hops, mode",
    "ways": "paths, directions, modes",
    "turn": "step of a loop, seq of a CQE",
    "turns": "steps",
    "places": "offsets, ports, locations, free entries",
    "beside": "ancillary, sibling, neighbour",
    "gone": "removed, closed, lost",
    "near": "local, ingress, this end, similar",
    "far": "remote, peer, egress",
    "lane": "a lane is of a link's width (IBA 7.2); a pacing clock is a link_clock",
    "octet": "be16, be32 … for big-endian accessors",
    "board": "shared fabric",
    "own": "local, self, or whose it is",
    "late": "deferred, overdue",
    "again": "repeated, retried, reread",
    "world": "shared heap, setup",
    "ground": "vma",
    "knock": "notify, wake",
    "burst": "batch",
    "spoiled": "corrupted",
    "dice": "rng",
    "chance": "probability, rng",
    "leg": "path segment",
    "legs": "direction, path segments",
    "track": "timed path",
    "seat": "port, slot",
    "seats": "port locks, ports",
    "desk": "handler, server",
    "office": "SA manager",
    "door": "server, socket",
    "doors": "servers, sockets",
    "errand": "task",
    "errands": "tasks",
    "cargo": "payload",
    "switchboard": "MAD router",
    "bereaved": "child watchdog, orphaned",
    "leftovers": "stale files or directories",
    "mishap": "crash log",
    "unasked": "unsolicited",
}
"""Word → what to say instead. A name is split at underscores and capitals; its words are compared in small letters."""

COINAGES = {
    "board", "switchboard", "desk", "office", "door", "doors", "errand", "errands", "cargo", "seat", "seats", "knock",
    "spoiled", "dice", "leg", "legs", "track", "bereaved", "leftovers", "mishap", "unasked", "lane",
}  # fmt: skip
"""Those of them that named parts of softib: no name of a test, a bench or a script of the pages either. (What a test ``said`` or
``told`` is everyday English there.)"""

_LANES = "of a link's width (IBA 7.2)"
_BOARDS = "a circuit board of a system, as IBNL files describe it (ibdm's word)"

ALLOWED = {
    "LANE_COUNTERS": _LANES,
    "lane_counters": _LANES,
    "lane_gbps": _LANES,
    "lane_data_gbps": _LANES,
    "LANE_DATA_GBPS": _LANES,
    "LANE_GBPS": _LANES,
    "_LANE_GBPS": _LANES,
    "_LANE_GBPS_EXT": _LANES,
    "_LANE_GBPS_EXT2": _LANES,
    "sm/sa/subnet.py:lane": _LANES,
    "fabric/formats/topo/ibnl.py:SubBoard": _BOARDS,
    "fabric/formats/topo/ibnl.py:Board": _BOARDS,
    "fabric/formats/topo/ibnl*.py:board": _BOARDS,
    "fabric/formats/topo/ibnl.py:board_of": _BOARDS,
    "fabric/formats/topo/ibnl_expand.py:_board": _BOARDS,
    "tests/fabric/formats/topo/test_topo.py:test_modifier_takes_another_board_and_its_ports": _BOARDS,
    "tests/preload/verbs/fabric/test_pace.py:test_from_ndr_to_edr_on_one_lane": _LANES,
    "tests/sim/test_fluid.py:test_a_virtual_lane_that_no_table_serves_is_said": "a VL",
    "tests/preload/verbs/engine/test_link_pacing.py:lane": _LANES,
    "tests/sm/*.py:board": "of the room in which tests of managers run",
    "docs/draw_serve.py:DESK": "where a browser of that size stands",
}
"""Name, or ``file pattern:name``, → why it stays."""
