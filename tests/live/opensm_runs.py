"""Stock OpenSM in one pass over a served fabric: its log, its complaints, and the tables in its dump files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.fabric.model import Fabric

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
        lines = re.findall(r"0x\w+\] \w+ -> (.*ERR .*)", self.log)
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
