"""Failed jobs that were recorded here: what real programs printed on a running fabric, and what the exporter counted
(:mod:`bench.why_stories`). Each names what was planted."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.fabric.formats.lft.dump import read_lfts
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric

FOLDER = Path(__file__).with_name("recorded")
STORIES = sorted(p.parent.name for p in FOLDER.glob("*/truth.json"))
DATA = ("port_xmit_data", "port_rcv_data")


@cache
def pod() -> Fabric:
    """The fabric of all of them, with its tables."""
    fabric = read(FOLDER / "pod.ibnetdiscover").fabric
    lft, problems = read_lfts(str(FOLDER / "pod.lft.gz"), fabric)
    assert not problems
    fabric.lft[:, : lft.shape[1]] = lft
    return fabric


def truth_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name / "truth.json").read_text())


def logs_of(name: str) -> list[Path]:
    return sorted((FOLDER / name).glob("*.log"))


def observations_of(name: str) -> Observations:
    """The three intervals that were kept."""
    fabric = pod()
    rows = np.flatnonzero((fabric.port_num > 0) & (fabric.port_peer >= 0))
    node = [fabric.node_name(int(fabric.port_node[r])) for r in rows]
    place = {(n, int(fabric.port_num[r])): i for i, (n, r) in enumerate(zip(node, rows, strict=True))}
    at = {int(r): i for i, r in enumerate(rows)}
    ports = ObservedPorts(
        fabric.node_guid[fabric.port_node[rows]],
        fabric.port_num[rows].astype(np.int32),
        fabric.is_switch[fabric.port_node[rows]],
        tuple(node),
        fabric.lid[rows].astype(np.int32),
        np.array([at[int(fabric.port_peer[r])] for r in rows], np.int32),
        np.full(len(rows), 200.0),
    )
    with (FOLDER / name / "counters.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    counters = [c for c in lines[0] if c not in ("interval", "begin_ns", "end_ns", "node", "port", "answered", "state")]
    shape = (3, len(rows))
    increase = {c: np.zeros(shape, np.uint64) for c in counters}
    known = {c: np.ones(shape, bool) for c in counters}
    state = np.full(shape, np.nan)
    begin, end = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for line in lines:
        i = int(line["interval"])
        begin[i], end[i] = int(line["begin_ns"]), int(line["end_ns"])
    for line in lines:
        i, row = int(line["interval"]), place[line["node"], int(line["port"])]
        if line["answered"] == "0":
            begin[i, row] = end[i, row]
            for column in known.values():
                column[i, row] = False
        state[i, row] = float(line["state"] or "nan")
        for c in counters:
            increase[c][i, row] = int(line[c] or 0)
    return Observations(ports, begin, end, increase, known, {"state": state})
