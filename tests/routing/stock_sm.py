"""Runs stock OpenSM on stock ibsim over a graph and reads back what it put into the switches."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from softib.routing.graph import SwitchGraph

PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"


def netlist(g: SwitchGraph) -> str:
    """The graph in ibsim's language; names and GUIDs are the graph's GUIDs."""
    owner = np.repeat(np.arange(g.n_switches), np.diff(g.first))
    lines: dict[int, list[str]] = {s: [] for s in range(g.n_switches)}
    for e in range(len(g.peer)):
        lines[int(owner[e])].append(f'[{g.out_port[e]}] "S{g.switch_guid[g.peer[e]]:016x}"[{g.peer_port[e]}]')
    for i in np.flatnonzero(~g.end_is_switch):
        lines[int(g.end_switch[i])].append(f'[{g.end_port[i]}] "H{g.end_guid[i]:016x}"[1]')
    out = []
    for s in range(g.n_switches):
        guid = int(g.switch_guid[s])
        out += [f"switchguid=0x{guid:x}", f'Switch {g.switch_nports[s]} "S{guid:016x}"', *lines[s], ""]
    for i in np.flatnonzero(~g.end_is_switch):
        guid = int(g.end_guid[i])
        at = f'"S{g.switch_guid[g.end_switch[i]]:016x}"[{g.end_port[i]}]'
        # ibsim gives port 1 the PortGUID NodeGUID + 1
        out += [f"caguid=0x{guid - 1:x}", f'Hca 1 "H{guid:016x}"', f"[1] {at}", ""]
    return "\n".join(out) + "\n"


@contextlib.contextmanager
def ibsim(program: str, g: SwitchGraph, folder: Path):
    """ibsim with the graph loaded, in a socket name space of its own; yields the clients' environment."""
    if not os.path.exists(PRELOAD):
        pytest.skip(f"{PRELOAD} is not installed")
    net = folder / "net"
    net.write_text(netlist(g))
    env = {**os.environ, "IBSIM_SOCKNAME": f"softib-routing-{os.getpid()}-{time.monotonic_ns()}"}
    nodes = g.n_switches + len(g.end_lid)
    ports = int(g.switch_nports.astype(int).sum()) + 2 * nodes
    limits = ["-N", str(nodes), "-S", str(g.n_switches + 1), "-P", str(ports)]
    log = folder / "ibsim.log"
    with log.open("wb") as out:
        sim = subprocess.Popen(
            [program, "-s", "-n", *limits, str(net)], env=env, stdin=subprocess.PIPE, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + 60
        while f"@{env['IBSIM_SOCKNAME']}:ctl" not in Path("/proc/net/unix").read_text():
            assert sim.poll() is None, log.read_text(errors="replace")[-800:]
            assert time.monotonic() < deadline, "ibsim did not start"
            time.sleep(0.02)
        host = next(int(g.end_guid[i]) for i in np.flatnonzero(~g.end_is_switch))
        yield {**env, "LD_PRELOAD": PRELOAD, "SIM_HOST": f"H{host:016x}"}
    finally:
        sim.kill()
        sim.wait()


def opensm(program: str, env: dict[str, str], folder: Path, engine: str, *more: str) -> str:
    """One pass of OpenSM; its log. Dumps lie in ``folder``."""
    args = [
        program,
        "-o",
        "-R",
        engine,
        "-D",
        "0x43",
        "-f",
        str(folder / "log"),
        "--dump_files_dir",
        str(folder),
        *more,
    ]
    env = {**env, "OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder)}
    done = subprocess.run(args, env=env, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]
    return (folder / "log").read_text(errors="replace")


def relabelled(g: SwitchGraph, lid_of_guid: dict[int, int]) -> SwitchGraph:
    """The graph with the LIDs that OpenSM gave."""
    from dataclasses import replace

    lid = np.array([lid_of_guid[int(x)] for x in g.end_guid])
    by = np.argsort(lid, kind="stable")
    ends = {
        n: getattr(g, n)[by]
        for n in (
            "end_lmc",
            "end_switch",
            "end_port",
            "end_is_switch",
            "end_is_compute",
            "end_guid",
            "end_node",
            "end_portnum",
        )
    }
    top = int((lid[by] + (1 << ends["end_lmc"].astype(int)) - 1).max())
    return replace(g, **ends, end_lid=lid[by].astype(np.uint16), max_lid=top)


def tables(folder: Path, g: SwitchGraph) -> tuple[np.ndarray, SwitchGraph]:
    """OpenSM's tables and the graph with OpenSM's LIDs, from ``opensm-lfts.dump``."""
    guid_row = {int(x): s for s, x in enumerate(g.switch_guid)}
    row, entries, lid_of = -1, [], {}
    for line in (folder / "opensm-lfts.dump").read_text().splitlines():
        if m := re.match(r"Unicast lids .*guid 0x([0-9a-f]+)", line):
            row = guid_row[int(m[1], 16)]
        elif m := re.match(r"0x([0-9a-f]+) (\d+) .*portguid 0x([0-9a-f]+)", line):
            entries.append((row, int(m[1], 16), int(m[2])))
            lid_of.setdefault(int(m[3], 16), int(m[1], 16))
    g = relabelled(g, lid_of)
    lft = np.full((g.n_switches, g.lft_size), 255, np.uint8)
    rows, lids, ports = np.array(entries).T
    lft[rows, lids] = ports
    return lft, g
