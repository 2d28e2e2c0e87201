"""Stock OpenSM in one pass over a served fabric: its log, its complaints, and the tables in its dump files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.routing.graph import SwitchGraph
from tests.live.serving import Serving
from tests.scenario.ibsim import Ibsim

SECONDS = 120


@dataclass
class Pass:
    """What one ``opensm -o`` left. ``folder`` holds its dump files."""

    folder: Path
    log: str

    @property
    def up(self) -> bool:
        return "SUBNET UP" in self.log

    @property
    def complaints(self) -> set[str]:
        """Its error lines without what differs from run to run: times, threads, TIDs and addresses."""
        lines = re.findall(r"\] 0x\w+ -> (.*ERR .*)", self.log)
        return {re.sub(r"0x[0-9a-f]+|\b\d+\b(?! :)", "#", re.sub(r"(?<=ERR )(\w+)", r"<\1>", x)) for x in lines}

    @property
    def engine(self) -> str:
        """The engine whose tables it set."""
        named = re.findall(r"(\S+) tables configured on all switches", self.log)
        return named[-1] if named else ""

    def lfts(self, f: Fabric) -> np.ndarray:
        """uint8[switches, LIDs]: what the dump file says that it has programmed, by the fabric's switches."""
        row_of = {int(f.node_guid[n]): s for s, n in enumerate(f.switch_node.tolist())}
        lft = np.full_like(f.lft, 255)
        row = -1
        for line in (self.folder / "opensm-lfts.dump").read_text().splitlines():
            if m := re.match(r"Unicast lids .*guid 0x([0-9a-f]+)", line):
                row = row_of[int(m[1], 16)]
            elif m := re.match(r"0x([0-9a-f]+) (\d+) ", line):
                lft[row, int(m[1], 16)] = int(m[2])
        return lft


def one_pass(program: str, env: dict[str, str], folder: Path, *options: str) -> Pass:
    """``opensm -o OPTIONS`` in ``folder``, which is made; raises AssertionError where it fails or does not end."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {**env, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    words = [program, "-o", "-D", "0x43", "-f", str(folder / "log"), "--dump_files_dir", str(folder), *options]
    done = subprocess.run(words, env=told, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    log = (folder / "log").read_text(errors="replace") if (folder / "log").is_file() else ""
    assert done.returncode == 0, (done.returncode, done.stdout[-800:], done.stderr[-800:], log[-800:])
    return Pass(folder, log)


@dataclass
class Compared:
    """The same pass on our server and on stock ibsim, and our fabric after it (one netlist for both)."""

    fabric: Fabric
    ours: Pass
    theirs: Pass


def on_both(stock, fabric: Fabric, folder: Path, *options: str, then=None) -> Compared:
    """``opensm -o OPTIONS`` on both servers. ``then(environment on ours, environment on ibsim, a host)`` is called while
    they still run."""
    theirs = Ibsim(stock("ibsim"), fabric, folder)
    served = read(folder / "net").fabric
    ours = Serving(served)
    host = f"H-{int(served.node_guid[served.cas[0]]):016x}"
    try:
        program = stock("opensm")
        places = ours.environment(host), theirs.environment(host)
        left = [
            one_pass(program, env, folder / name, *options) for env, name in zip(places, ("ours", "ibsim"), strict=True)
        ]
        if then is not None:
            then(*places, host)
    finally:
        theirs.stop()
        ours.stop()
    return Compared(served, *left)


def sl2vl_of(f: Fabric) -> np.ndarray:
    """uint8[switches, ports + 1, ports + 1, 16]: the VL by switch, input and output portnum and SL."""
    widest = int(f.node_nports[f.switch_node].max()) + 1
    table = np.zeros((f.sizes.switches, widest, widest, 16), np.uint8)
    nibbles = np.stack([f.sl2vl >> 4, f.sl2vl & 15], axis=2).reshape(-1, 16)
    for s, node in enumerate(f.switch_node.tolist()):
        n = int(f.node_nports[node]) + 1
        for out in range(n):
            first = int(f.sl2vl_base[int(f.node_base[node]) + out])
            table[s, :n, out] = nibbles[first : first + n]
    return table


def path_sls(saquery: str, graph: SwitchGraph) -> np.ndarray:
    """uint8[ends, ends] SL by (source, destination), of what ``saquery -p`` prints."""
    end_of = {int(lid): i for i, lid in enumerate(graph.end_lid)}
    sls = np.full((len(end_of), len(end_of)), 255, np.uint8)
    for record in saquery.split("PathRecord dump:")[1:]:
        value = {k: int(v, 0) for k, v in re.findall(r"^\t\t(slid|dlid|sl)\.+(\w+)$", record, re.M)}
        sls[end_of[value["slid"]], end_of[value["dlid"]]] = value["sl"]
    return sls
