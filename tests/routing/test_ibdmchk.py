"""ibutils' ``ibdmchk`` as a second oracle: hops and credit loops of CA→CA paths, also through SLs and VLs."""

import re
import subprocess

import numpy as np
import pytest

from softib.routing.proof.verify import verify
from tests.routing.lab import GRAPHS
from tests.routing.stock_sm import ibsim, opensm, tables

pytestmark = pytest.mark.stock

TO_SWITCHES = 15


def ibdmchk(program, folder, *more):
    """(has a credit loop, {hops: pairs}) as ibdmchk says; it counts the link from the CA as a hop too."""
    files = ["-s", folder / "opensm-subnet.lst", "-f", folder / "opensm.fdbs", "-m", folder / "opensm.mcfdbs"]
    done = subprocess.run(
        [program, *map(str, files), *map(str, more)], capture_output=True, text=True, timeout=240, check=False
    )
    text = done.stdout  # Debian's 1.5.7 crashes on exit, after the report
    said = re.search(r"no credit loops found|credit loops in routing", text)
    assert said, text[-500:]
    bars = text.split("LFT ROUTE HOP HISTOGRAM")[1].split("HOPS NUM-CA-CA-PAIRS")[1].split("---")[0]
    hops = {int(h) - 1: int(n) for h, n in (line.split() for line in bars.splitlines() if line.strip())}
    return "in routing" in said[0], hops


@pytest.fixture
def routed(stock, tmp_path):
    def run(g, engine="minhop"):
        with ibsim(stock("ibsim"), g, tmp_path) as env:
            opensm(stock("opensm"), env, tmp_path, engine)
        return *tables(tmp_path, g), tmp_path

    return run


def only_between_cas(g, path_sl, sl2vl):
    """Paths to switches get an SL that no VL carries, since ibdmchk looks at CA→CA paths only."""
    path_sl[:, g.end_is_switch] = TO_SWITCHES
    sl2vl[..., TO_SWITCHES] = 15
    return path_sl, sl2vl


@pytest.mark.parametrize("name", GRAPHS)
def test_on_one_vl(routed, stock, name):
    lft, g, folder = routed(GRAPHS[name]())
    ends = len(g.end_lid)
    path_sl, sl2vl = only_between_cas(g, np.zeros((ends, ends), np.uint8), np.zeros(16, np.uint8))
    p = verify(g, lft, path_sl, sl2vl, 1)
    loop, hops = ibdmchk(stock("ibdmchk"), folder)
    assert (p.hops_ca, p.credit_loop is not None) == (hops, loop)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["ring", "torus", "irregular a"])
def test_through_sls_and_vls(routed, stock, name, seed):
    """Random SLs, VL = SL (ibdmchk 1.5.7 crashes on SL2VL files): some seeds have loops, some have none."""
    lft, g, folder = routed(GRAPHS[name]())
    ends = len(g.end_lid)
    path_sl = np.random.default_rng(seed).integers(0, 1 + seed, (ends, ends)).astype(np.uint8)
    with (folder / "path-sl").open("w") as f:
        for a in np.flatnonzero(~g.end_is_switch):
            for b in np.flatnonzero(~g.end_is_switch):
                f.write(f"0x{int(g.end_guid[a]) - 1:016x} {int(g.end_lid[b])} {path_sl[a, b]}\n")
    loop, hops = ibdmchk(stock("ibdmchk"), folder, "-c", folder / "path-sl")
    p = verify(g, lft, *only_between_cas(g, path_sl, np.arange(16, dtype=np.uint8)), 8)
    assert (p.credit_loop is not None, p.hops_ca) == (loop, hops)
    loops_seen.add(p.credit_loop is not None)


loops_seen: set[bool] = set()


def test_the_seeds_above_hold_both_cases():
    if not loops_seen:
        pytest.skip("the seeds above did not run")
    assert loops_seen == {True, False}
