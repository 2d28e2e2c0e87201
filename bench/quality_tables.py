"""Stock OpenSM's forwarding tables of many fabrics, for ``bench/quality.py``, which needs no OpenSM.

    python bench/quality_tables.py FOLDER [FABRIC …]      # default: all of FABRICS

OpenSM 3.3.23 runs on stock ibsim, each engine of ENGINES without a fallback. FOLDER/FABRIC.npz gets the graph (``graph_*``, the fields of
SwitchGraph), torus-2QoS's configuration, and of each engine ``lft_ENGINE`` uint8[switches, ends] (a column for each end port of the graph)
and ``lanes_ENGINE`` (virtual lanes that its log names, 0 where it names none). An engine that refuses is listed in ``refused``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.routing.engines.torus_lab import Lab
from tests.routing.fabrics import kary_tree
from tests.routing.lab import changed
from tests.routing.stock_sm import ibsim, tables

from softib.fabric.formats.registry import read
from softib.fabric.topologies.registry import generate
from softib.routing.graph import SwitchGraph
from softib.scenario.bring_up import bring_up

OPENSM, IBSIM = "/usr/sbin/opensm", "/usr/bin/ibsim"
ENGINES = ("minhop", "updn", "dnup", "ftree", "sssp", "dfsssp", "lash", "nue", "nue8", "dor", "torus-2QoS")
"""OpenSM's engines; nue8 is nue with nue_max_num_vls 8."""
PATIENCE_S = 150.0
DATA = Path(__file__).resolve().parent.parent.parent / "shared/data"


def made(kind: str, **parameters: Any) -> SwitchGraph:
    return bring_up(generate(kind, **parameters), "minhop").graph


def real(name: str) -> SwitchGraph:
    return bring_up(read(DATA / name).fabric, "minhop").graph


def damaged(g: SwitchGraph, share: float, seed: int) -> SwitchGraph:
    """``g`` without that share of its cables between switches."""
    n = len(g.peer) // 2
    return changed(g, cut=set(np.random.default_rng(seed).choice(n, round(share * n), replace=False).tolist()))


def emptied(g: SwitchGraph, share: float, seed: int) -> SwitchGraph:
    """``g`` without the hosts of that share of its leaves."""
    leaves = np.unique(g.end_switch[~g.end_is_switch])
    drawn = np.random.default_rng(seed).choice(leaves, round(share * len(leaves)), replace=False)
    return changed(g, empty=set(drawn.tolist()))


def without_switch(g: SwitchGraph, switch: int) -> SwitchGraph:
    """``g`` without the cables of one switch."""
    owner = np.repeat(np.arange(g.n_switches), np.diff(g.first))
    once = np.flatnonzero(np.arange(len(g.peer)) < g.reverse)
    return changed(g, cut=set(np.flatnonzero((owner[once] == switch) | (g.peer[once] == switch)).tolist()))


def torus(*radix: int, hosts: int = 1) -> Callable[[], tuple[SwitchGraph, str]]:
    def make() -> tuple[SwitchGraph, str]:
        lab = Lab(*(radix + (1,) * (3 - len(radix))), hosts=hosts)
        return lab.graph, lab.config()

    return make


def tree_1944() -> SwitchGraph:
    return made("fat-tree", radix=36, levels=3, hosts=1944)


FABRICS: dict[str, Callable[[], SwitchGraph | tuple[SwitchGraph, str]]] = {
    "full tree, 432 hosts": lambda: kary_tree(6, 3, True),
    "full tree, 648 hosts, 2 levels": lambda: made("fat-tree", radix=36, levels=2, hosts=648),
    "full tree, 1,024 hosts": lambda: kary_tree(8, 3, True),
    "half a tree, 1,944 hosts": tree_1944,
    "2:1 tree, 432 hosts": lambda: made("fat-tree", radix=36, levels=2, hosts=432, oversubscription=2),
    "3:1 tree, 972 hosts": lambda: made("fat-tree", radix=36, levels=2, hosts=972, oversubscription=3),
    "2:1 tree, 1,152 hosts, 3 levels": lambda: made("fat-tree", radix=24, levels=3, hosts=1152, oversubscription=2),
    "tree, 2 % of cables missing": lambda: damaged(kary_tree(6, 3, True), 0.02, 1),
    "tree, 10 % of cables missing": lambda: damaged(kary_tree(6, 3, True), 0.10, 2),
    "tree, 2 levels, 5 % of cables missing": lambda: damaged(made("fat-tree", radix=36, levels=2, hosts=648), 0.05, 3),
    "tree, 1,024 hosts, 3 % of cables missing": lambda: damaged(kary_tree(8, 3, True), 0.03, 4),
    "tree, one spine missing": lambda: without_switch(kary_tree(6, 3, True), 72 + 3),
    "tree, one top switch missing": lambda: without_switch(kary_tree(6, 3, True), 144 + 5),
    "tree, a fifth of its leaves without hosts": lambda: emptied(kary_tree(6, 3, True), 0.2, 5),
    "psmn-x5": lambda: real("psmn-x5/X5.topofile"),
    "Topo.5": lambda: real("hk-examples/Topo.5.txt"),
    "Topo.6_CS8500": lambda: real("hk-examples/Topo.6_CS8500.txt"),
    "selene.storage": lambda: real("ufm-selene-storage/selene.storage.txt"),
    "sequoia": lambda: real("sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover"),
    "fdr10-stage": lambda: real("fdr10-stage/topo"),
    "k-4-n-3-Full": lambda: real("ftree-k4n3/k-4-n-3-Full.topo"),
    "RhinoBased512": lambda: real("ibutils-clusters/RhinoBased512.lst"),
    "RhinoBased512 without spines 2 and 3": lambda: real("ibutils-clusters/RhinoBased512.no_sp2-3.lst"),
    "superbench": lambda: real("superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt"),
    "clos5": lambda: real("qnib-net/netlist.clos5"),
    "clos7": lambda: real("qnib-net/netlist.clos7"),
    "torus 6 x 6": torus(6, 6, hosts=2),
    "torus 8 x 8": torus(8, 8, hosts=4),
    "torus 5 x 5 x 5": torus(5, 5, 5),
    "torus 6 x 6 x 6": torus(6, 6, 6),
    "torus 4 x 4 x 4": torus(4, 4, 4, hosts=4),
    "dragonfly+, 144 hosts": lambda: made("dragonfly+", g=9, l=4, s=4, p=4, h=2),
    "dragonfly, 342 hosts": lambda: made("dragonfly", a=6, p=3, h=3, g=19),
}


def file_name(fabric: str) -> str:
    return re.sub(r"[^0-9A-Za-z.+-]+", "_", fabric).strip("_") + ".npz"


def stock_tables(g: SwitchGraph, engine: str, config: str) -> tuple[np.ndarray | None, int]:
    """uint8[switches, ends] of one run of OpenSM, None where it refuses; and the lanes that its log names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "torus.conf").write_text(config)
        (folder / "conf").write_text(f"nue_max_num_vls {8 if engine == 'nue8' else 1}\n")
        log = folder / "log"
        with ibsim(IBSIM, g, folder) as env:
            words = [
                "-F",
                folder / "conf",
                "-R",
                f"{engine.removesuffix('8')},no_fallback",
                "-D",
                "0x43",
                "-o",
                "-f",
                log,
                "-Q",
            ]
            words += ["--dump_files_dir", folder, *(["--torus_config", folder / "torus.conf"] if config else [])]
            env = {**env, "OSM_TMP_DIR": name, "OSM_CACHE_DIR": name}
            sm = subprocess.Popen(
                [OPENSM, *map(str, words)],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end and sm.poll() is None:
                time.sleep(0.1)
                if log.exists() and "No routing engine able" in log.read_text(errors="replace")[-20_000:]:
                    break
            sm.kill()
            sm.wait()
        text = log.read_text(errors="replace") if log.exists() else ""
        lanes = re.findall(r"Virtual Lanes needed: (\d+)|Lanes needed: (\d+)", text)
        vls = max((int(a or b) for a, b in lanes), default=0)
        if "tables configured on all switches" not in text or not (folder / "opensm-lfts.dump").exists():
            return None, vls
        lft, other = tables(folder, attached(g))
        found = dict(zip(other.end_guid.tolist(), other.end_lid.tolist(), strict=True))
    columns = np.concatenate([lft, np.full((len(lft), 1), 255, np.uint8)], axis=1)
    return columns[:, [found.get(guid, -1) for guid in g.end_guid.tolist()]], vls


def attached(g: SwitchGraph) -> SwitchGraph:
    """``g`` without the own ports of switches that no cable leads to: no manager finds them."""
    keep = ~g.end_is_switch | (np.diff(g.first) > 0)[g.end_switch]
    return replace(g, **{f.name: getattr(g, f.name)[keep] for f in fields(g) if f.name.startswith("end_")})


def save(folder: Path, fabric: str) -> None:
    found = FABRICS[fabric]()
    g, config = found if isinstance(found, tuple) else (found, "")
    out: dict[str, Any] = {f"graph_{f.name}": getattr(g, f.name) for f in fields(g)}
    refused = []
    for engine in ENGINES:
        if engine == "torus-2QoS" and not config:
            continue
        start = time.monotonic()
        lft, vls = stock_tables(g, engine, config)
        out[f"lanes_{engine}"] = vls
        if lft is None:
            refused.append(engine)
        else:
            out[f"lft_{engine}"] = lft
        print(
            f"{fabric}: {engine}: {'refuses' if lft is None else 'tables'}, {vls or 'no'} lanes named, "
            f"{time.monotonic() - start:.1f} s",
            flush=True,
        )
    np.savez_compressed(folder / file_name(fabric), fabric=fabric, torus_config=config, refused=refused, **out)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for fabric in sys.argv[2:] or FABRICS:
        if not (folder / file_name(fabric)).exists():
            save(folder, fabric)


if __name__ == "__main__":
    main()
