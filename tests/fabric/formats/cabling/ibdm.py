"""Asks the stock library of ibutils what it makes of a ``.topo`` file (through its Tcl shell ``ibdmsh``)."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """
set f [new_IBFabric]
puts "RC [IBFabric_%s $f %s]"
foreach n [IBFabric_NodeByName_get $f] {
  set node [lindex $n 1]
  puts "NODE|[IBNode_name_get $node]|[IBNode_type_get $node]|[IBNode_numPorts_get $node]"
  foreach p [IBNode_Ports_get $node] {
    set r [IBPort_p_remotePort_get $p]
    if {$r != "" && $r != "NULL"} {
      set s [IBPort_p_sysPort_get $p]
      set label "-"
      if {$s != "" && $s != "NULL"} { set label [IBSysPort_name_get $s] }
      set rn [IBPort_p_node_get $r]
      puts "LINK|[IBNode_name_get $node]|[IBPort_num_get $p]|[IBNode_name_get $rn]|[IBPort_num_get $r]|[IBPort_width_get $p]|[IBPort_speed_get $p]|$label"
    }
  }
}
exit
"""


@dataclass
class IbdmFabric:
    """``nodes``: name → (type, ports); ``links``: (node, port) → (peer, its port, width, speed, front-panel label)."""

    ok: bool
    nodes: dict[str, tuple[int, int]]
    links: dict[tuple[str, int], tuple[str, int, str, str, str]]


def load(ibdmsh: str, topo: Path, folder: Path, how: str = "parseTopology") -> IbdmFabric:
    """Load ``topo`` in ibdm, working in ``folder`` (IBNL is sought in the installed place)."""
    # The shell's Tcl reads the name as a word of its own grammar: give it one without special characters.
    (folder / "cur.topo").write_bytes(topo.read_bytes())
    done = subprocess.run(
        [ibdmsh],
        input=SCRIPT % (how, "cur.topo"),
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=240,
    )
    nodes, links, ok = {}, {}, False
    for line in done.stdout.splitlines():
        f = line.strip().split("|")
        if f[0].startswith("RC "):
            ok = f[0] == "RC 0"
        elif f[0] == "NODE":
            nodes[f[1]] = (int(f[2]), int(f[3]))
        elif f[0] == "LINK":
            links[f[1], int(f[2])] = (f[3], int(f[4]), f[5], f[6], f[7])
    return IbdmFabric(ok, nodes, links)
