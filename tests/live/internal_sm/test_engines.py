"""Every routing engine of stock OpenSM on our server under the stock preload, against the same run on stock ibsim."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.routing.proof.verify import verify
from softib.scenario.graph_view import graph_of
from tests.live.internal_sm.lab import torus_config
from tests.live.internal_sm.runs import SECONDS, Compared, on_both, path_sls, sl2vl_of
from tests.live.serving import PRELOAD, run, wait_for
from tests.live.umad.serving import UmadServing

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]

TREE = ("fat-tree", {"radix": 4, "levels": 3})
TORUS = ("torus", {"dims": [3, 3, 3], "hosts_per_switch": 1})
MESH = ("mesh", {"dims": [3, 3], "hosts_per_switch": 1})
QOS = ("-Q",)
ON = {
    "minhop": (TREE, ()),
    "updn": (TREE, ()),
    "dnup": (TREE, ()),
    "ftree": (TREE, ()),
    "lash": (TORUS, QOS),
    "dor": (MESH, ()),
    "dfsssp": (TORUS, QOS),
    "sssp": (TREE, ()),
    "nue": (TREE, ()),
}
"""Engine → a topology that it supports, and what else it needs."""
BY_SL = ("dfsssp", "torus-2QoS")
"""Engines whose tables alone have cycles: SLs and VLs break them."""
QUICK = {("minhop", 2), ("updn", 0), ("ftree", 0), ("lash", 1), ("dor", 3), ("nue", 0)}
CASES = [
    pytest.param(engine, lmc, marks=() if (engine, lmc) in QUICK else pytest.mark.slow)
    for engine in ON
    for lmc in range(4)
]


@pytest.mark.parametrize(("engine", "lmc"), CASES)
def test_engine(engine, lmc, stock, tmp_path):
    (kind, parameters), more = ON[engine]
    done = on_both(stock, generate(kind, **parameters), tmp_path, "-R", engine, "-l", str(lmc), *more)
    f, ours, theirs = done.fabric, done.ours, done.theirs
    assert ours.up and theirs.up and not ours.complaints - theirs.complaints
    # OpenSM's ftree knows no LMC: it says so and takes minhop, on both.
    assert ours.engine == theirs.engine == ("minhop" if engine == "ftree" and lmc else engine)
    assert (ours.lfts(f) == f.lft).all(), "the switches hold what it programmed"
    assert (ours.lfts(f) == theirs.lfts(f)).all(), "and it programmed what it programs on ibsim"
    assert (f.port_state[f.linked] == 4).all()
    cas = f.node_base[f.cas] + 1
    assert (f.lmc[cas] == lmc).all() and (np.diff(np.sort(f.lid[cas])) >= 1 << lmc).all()
    proof = verify(graph_of(f), f.lft)
    assert proof.unreachable == 0
    assert proof.deadlock_free or engine in BY_SL


@pytest.mark.parametrize("lmc", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_torus_2qos_with_its_config(lmc, stock, tmp_path):
    f = generate("torus", dims=[3, 3, 5], hosts_per_switch=1)
    done = on_both(stock, f, tmp_path, *torus_words(f, tmp_path), "-l", str(lmc))
    f = done.fabric
    as_programmed(done, "torus-2QoS")
    assert (f.lmc[f.node_base[f.cas] + 1] == lmc).all()
    programmed, held = sl2vl_dump(done.ours.folder, f), sl2vl_of(f)
    told = programmed < 255
    assert (held[told] == programmed[told]).all() and len(set(held[told].tolist())) == 8
    external = np.arange(held.shape[1]) > 0
    linked = np.array(
        [
            [f.linked[f.node_base[n] + p] if p <= f.node_nports[n] else False for p in range(held.shape[1])]
            for n in f.switch_node
        ]
    )
    assert told[:, :, linked.any(axis=0) & external].any() and told[linked].any()


def torus_words(f: Fabric, folder: Path) -> list[str]:
    """Options for torus-2QoS on the torus ``f``, or nothing: its configuration is written into ``folder``."""
    (folder / "torus.conf").write_text(torus_config(f))
    return ["-Q", "-R", "torus-2QoS,no_fallback", "--torus_config", str(folder / "torus.conf")]


def as_programmed(done: Compared, engine: str) -> None:
    """The subnet is up on both, without an error that ibsim does not see, and our LFTs are what OpenSM says and what it
    programs there."""
    f = done.fabric
    assert done.ours.up and done.theirs.up and not done.ours.complaints - done.theirs.complaints
    assert done.ours.engine == done.theirs.engine == engine
    assert (done.ours.lfts(f) == f.lft).all() and (done.ours.lfts(f) == done.theirs.lfts(f)).all()
    assert (f.port_state[f.linked] == 4).all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", [*ON, "torus-2QoS"])
def test_qos_partitions_and_congestion_control_with_every_engine(engine, stock, tmp_path):
    """``-Q -P partitions.conf --congestion_control`` at once."""
    kind, parameters = ON[engine][0] if engine in ON else TORUS
    f = generate(kind, **parameters)
    guid = [int(f.port_guid[f.node_base[n] + 1]) for n in f.cas]
    (tmp_path / "partitions.conf").write_text(
        f"Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nstore=0x12 : {guid[1]:#x}=full, {guid[2]:#x}=limited ;\n"
    )
    # Its own values are zeros, and Control_Map says which components count (IBA A10.4.3.6).
    (tmp_path / "conf").write_text(
        "cc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold 0x7\n"
        "cc_ca_cong_setting_control_map 0x3\ncc_ca_cong_setting_ccti_timer 0 150\n"
    )
    words = torus_words(f, tmp_path) if engine == "torus-2QoS" else ["-Q", "-R", engine]
    words += ["-F", str(tmp_path / "conf"), "-P", str(tmp_path / "partitions.conf"), "--congestion_control"]
    done = on_both(stock, f, tmp_path, *words)
    f = done.fabric
    as_programmed(done, engine)
    cas = f.node_base[f.cas] + 1
    rows = {int(f.port_guid[p]): int(p) for p in cas}
    for g, keys in ((guid[1], {0x7FFF, 0x8012}), (guid[2], {0x7FFF, 0x0012}), (guid[0], {0xFFFF})):
        first = int(f.pkey_base[rows[g]])
        assert set(f.pkeys[first : first + int(f.pkey_cap[rows[g]])].tolist()) - {0} == keys, hex(g)
    assert f.vl_arb[f.linked].any(axis=(1, 2)).all() and f.sl2vl[f.sl2vl_base[cas]].any(axis=1).all(), "of -Q"
    assert (f.cc_switch_setting[:, 68] == 0x70).all() and (f.cc_ca_setting[cas, 4:6] == [0, 150]).all()


def sl2vl_dump(folder, f: Fabric) -> np.ndarray:
    """``opensm-sl2vl.dump`` as :func:`sl2vl_of` has it; 255 where it says nothing."""
    row_of = {int(f.node_guid[n]): s for s, n in enumerate(f.switch_node.tolist())}
    table = np.full(sl2vl_of(f).shape, 255, np.uint8)
    row = -1
    for line in (folder / "opensm-sl2vl.dump").read_text().splitlines():
        words = line.split()
        if line.startswith("Switch 0x"):
            row = row_of[int(words[1].rstrip(","), 16)]
        elif line.startswith("Channel"):
            row = -1
        elif len(words) == 19 and row >= 0 and words[0].isdigit():
            table[row, int(words[0]), int(words[1])] = [int(x) for x in words[3:]]
    return table


def test_an_engine_that_cannot_complains_the_same_on_both(stock, tmp_path):
    """The control of :attr:`Pass.complaints`: here there must be some."""
    (tmp_path / "torus.conf").write_text("torus 9 9 9\n")
    f = generate("mesh", dims=[2, 2], hosts_per_switch=1)
    done = on_both(stock, f, tmp_path, "-Q", "-R", "torus-2QoS", "--torus_config", str(tmp_path / "torus.conf"))
    assert done.ours.complaints == done.theirs.complaints != set()
    assert done.ours.engine == done.theirs.engine == "minhop"


NO_VL = 15
SL_CASES = {
    "torus-2QoS": ("torus", {"dims": [3, 3, 5], "hosts_per_switch": 1}, ()),
    "dfsssp": ("torus", {"dims": [3, 3], "hosts_per_switch": 2}, ()),
    "lash": ("torus", {"dims": [5, 5], "hosts_per_switch": 1}, ()),
    "nue": ("torus", {"dims": [3, 3], "hosts_per_switch": 2}, ("--nue_max_num_vls", "4")),
}


@pytest.mark.parametrize(
    "engine", [e if e == "torus-2QoS" else pytest.param(e, marks=pytest.mark.slow) for e in SL_CASES]
)
def test_what_the_sa_tells_and_the_switches_hold_cannot_deadlock(engine, own_library, stock, tmp_path):
    """The SLs that ``saquery -p`` lists, over the SL2VL tables and LFTs in our switches: the proof of the whole."""
    kind, parameters, more = SL_CASES[engine]
    f = generate(kind, **parameters)
    words = ["-Q", "-R", f"{engine},no_fallback", *more]
    if engine == "torus-2QoS":
        (tmp_path / "torus.conf").write_text(torus_config(f))
        words += ["--torus_config", str(tmp_path / "torus.conf")]
    s = UmadServing(f, own_library)
    log = tmp_path / "log"
    env = {**s.environment(), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    sm = subprocess.Popen(
        [stock("opensm"), "-f", str(log), "-d2", *words],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(), SECONDS)
        code, said = run(tmp_path, s.environment(f.node_name(int(f.cas[-1]))), stock("saquery"), "-p")
        assert code == 0, said
        graph = graph_of(f)
        sls = path_sls(said, graph)
        cas = np.flatnonzero(~graph.end_is_switch)
        assert (sls[np.ix_(cas, cas)] < 16).all(), "a record of every pair"
        # Of paths to switches nue promises nothing.
        sls[:, graph.end_is_switch] = NO_VL
        vls = sl2vl_of(f)
        vls[..., NO_VL] = 15
        proof = verify(graph, f.lft, sls, vls)
        assert proof.ca_ca.arrived == proof.ca_ca.total == len(cas) * (len(cas) - 1)
        assert proof.deadlock_free, proof.credit_loop
        one = np.where(sls == NO_VL, NO_VL, 0).astype(np.uint8)
        assert engine == "lash" or not verify(graph, f.lft, one, vls).deadlock_free, (
            "without the SLs it would not be one"
        )
        assert "ERR" not in log.read_text()
    finally:
        sm.kill()
        sm.wait()
        s.stop()
