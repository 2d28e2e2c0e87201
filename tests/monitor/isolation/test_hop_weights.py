"""The lines for OpenSM's hop_weights_file that ``softib isolate`` shows. Oracle: OpenSM 3.3's minhop, which then routes no LID over the cable."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.preload.verbs.applications import A, Applications

pytestmark = [pytest.mark.stock, pytest.mark.slow]
TREE = "name: weights\ngeneration: SDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"


def ran(fabric, *arguments, code=0):
    done = subprocess.run(
        fabric.arguments(*arguments), env=fabric.env, cwd=fabric.folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def entries(fabric, ports):
    """How many LIDs the tables route over each port."""
    ran(fabric, "convert", "f", "tables.lft")
    current, count = "", dict.fromkeys(ports, 0)
    for line in (fabric.folder / "tables.lft").read_text().splitlines():
        if "switch Lid" in line:
            current = line.partition("guid ")[2].split()[0]
        elif line.startswith("0x"):
            port = (current, int(line.split()[1]))
            count[port] = count.get(port, 0) + 1
    return [count[p] for p in ports]


def test_minhop_of_opensm_avoids_the_cable(stock):
    fabric = Applications(TREE, "--sm", "external")
    try:
        manager = ("run", "--node", A, "--", stock("opensm"), "-o", "-R", "minhop", "-f", "opensm.log")
        ran(fabric, *manager)
        ran(fabric, "fault", "ber", "leaf-1[3]", "1e-4")
        (choice,) = json.loads(ran(fabric, "isolate", "f", "--rounds", "3", "--every", "4", "--json", code=1))[
            "choices"
        ]
        (lines,) = [
            c.removeprefix("hop_weights_file: ") for c in choice["commands"] if c.startswith("hop_weights_file")
        ]
        weights = lines.split("; ")
        ports = [(line.split()[0], int(line.split()[1])) for line in weights]
        ran(fabric, "fault", "clear")
        assert all(n > 0 for n in entries(fabric, ports))
        (fabric.folder / "weights.conf").write_text("".join(f"{line}\n" for line in weights))
        ran(fabric, *manager, "-r", "-w", "weights.conf")
        assert entries(fabric, ports) == [0, 0]
    finally:
        fabric.close()
