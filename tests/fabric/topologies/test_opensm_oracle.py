"""Stock OpenSM as judge of structure: its ftree and torus-2QoS engines route only what they find to be one.

Each fabric is loaded into stock ibsim; OpenSM sweeps it once. An engine that does not recognise its topology falls back
to minhop, so the engine named in the log is the verdict. Swapped cables must cost a torus its recognition.
"""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.faults import inject
from softib.fabric.topologies.registry import generate
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock
UMAD2SIM = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")


def netlist(f) -> str:
    """The fabric as ibsim reads it; names without blanks."""
    lines = []
    names = [n.replace(" ", "_") for n in f.node_names()]
    for n in range(f.sizes.nodes):
        guid, kind = ("switchguid", "Switch") if f.node_type[n] == 2 else ("caguid", "Hca")
        lines += [f"{guid}=0x{int(f.node_guid[n]):x}", f'{kind} {f.node_nports[n]} "{names[n]}"']
        for p in f.ports_of(n):
            q = int(f.port_peer[p])
            if q >= 0:
                lines.append(f'[{f.port_num[p]}] "{names[f.port_node[q]]}"[{f.port_num[q]}]')
        lines.append("")
    return "\n".join(lines)


def torus_conf(f) -> str:
    """torus-2QoS.conf: sizes, and the seed links from the origin (both ways in a dimension of 4)."""
    dims = f.source.generator["params"]["dims"]
    guid = {n: f"0x{int(g):x}" for n, g in zip(f.node_names(), f.node_guid, strict=True)}
    lines = ["torus " + " ".join(map(str, dims))]
    for k, size in enumerate(dims):
        for sign, at in (("p", 1), ("m", size - 1)):
            to = [0, 0, 0]
            to[k] = at
            lines.append(f"{'xyz'[k]}{sign}_link {guid['switch-0-0-0']} {guid['switch-' + '-'.join(map(str, to))]}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def opensm(stock, tmp_path):
    """``opensm(fabric, engine)`` → (engine that really routed, whole log)."""
    ibsim, program = stock("ibsim"), stock("opensm")
    if not UMAD2SIM.exists():
        pytest.skip("libumad2sim.so is not installed")
    running = []

    def run(f, engine):
        (tmp_path / "f.net").write_text(netlist(f))
        log = tmp_path / "opensm.log"
        env = {
            **os.environ,
            "IBSIM_SOCKNAME": uuid.uuid4().hex[:12],
            "OSM_TMP_DIR": str(tmp_path),
            "OSM_CACHE_DIR": str(tmp_path),
        }
        sim = subprocess.Popen(
            [ibsim, "-s", str(tmp_path / "f.net")],
            stdin=subprocess.PIPE,
            env=env,
            stdout=(tmp_path / "ibsim.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        running.append(sim)
        assert wait_for(lambda: f"@{env['IBSIM_SOCKNAME']}:ctl" in Path("/proc/net/unix").read_text())
        host = f.node_name(int(f.cas[0])).replace(" ", "_")
        more = []
        if engine == "torus-2QoS":
            (tmp_path / "torus.conf").write_text(torus_conf(f))
            more = ["-Q", "--torus_config", str(tmp_path / "torus.conf")]
        subprocess.run(
            [program, "-o", "-R", engine, "-f", str(log), *more],
            timeout=240,
            check=False,
            cwd=tmp_path,
            env={**env, "LD_PRELOAD": str(UMAD2SIM), "SIM_HOST": host},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        text = log.read_text(errors="replace")
        assert "SUBNET UP" in text, text[-2000:]
        return re.findall(r"(\S+) tables configured on all switches", text)[-1], text

    yield run
    for sim in running:
        sim.kill()
        sim.wait()


@pytest.mark.parametrize(
    ("kind", "params", "rank"),
    [
        ("fat-tree", {"radix": 8, "levels": 3}, 3),
        ("fat-tree", {"radix": 8, "hosts": 45}, 3),
        ("fat-tree", {"radix": 12, "levels": 2, "oversubscription": 2}, 2),
        ("fat-tree", {"radix": 8, "levels": 2, "parallel": 2}, 2),
        ("rail-optimized", {"nodes": 127}, 2),
        ("rail-optimized", {"nodes": 28, "rails": 4, "radix": 8}, 3),
    ],
)
def test_opensm_ftree_accepts_our_trees(opensm, kind, params, rank):
    engine, log = opensm(generate(kind, **params), "ftree")
    assert engine == "ftree"
    assert f"FatTree rank (roots to leaf switches): {rank}" in log


def test_opensm_ftree_refuses_what_is_no_tree(opensm):
    assert opensm(generate("torus", dims=[4, 4]), "ftree")[0] != "ftree"


@pytest.mark.parametrize("params", [{"dims": [4, 4, 4]}, {"dims": [5, 4, 3], "parallel": 2, "hosts_per_switch": 2}])
def test_opensm_torus_2qos_accepts_our_tori(opensm, params):
    assert opensm(generate("torus", **params), "torus-2QoS")[0] == "torus-2QoS"


def test_opensm_torus_2qos_refuses_a_torus_with_crossed_cables(opensm):
    f = generate("torus", dims=[5, 5, 5])
    rng = np.random.default_rng(3)
    for _ in range(3):
        a, b = rng.permutation(np.flatnonzero(f.port_num == 2))[:2]
        inject.swap_cables(f, int(a), int(b))
    assert opensm(f, "torus-2QoS")[0] != "torus-2QoS"
