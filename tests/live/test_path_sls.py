"""Engines that break cycles by SLs and VLs: what ``softib`` says of a running fabric that stock
OpenSM routed with them.

The tables alone have credit loops there (but for lash's on some); with the SLs that the SA tells,
through the SL2VL tables in the switches, they have none (Skeie et al. 2002, Domke et al. 2011 and
2016 prove it of their engines).
"""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.live.internal_sm.lab import torus_config
from tests.live.internal_sm.runs import SECONDS
from tests.live.lab import Softib, said
from tests.live.serving import wait_for
from tests.live.umad_sm.lab import own

pytestmark = pytest.mark.stock

CASES = {
    "torus-2QoS": "{kind: torus, dims: [3, 3, 5], hosts_per_switch: 1}",
    "dfsssp": "{kind: torus, dims: [3, 3], hosts_per_switch: 2}",
    "lash": "{kind: torus, dims: [5, 5], hosts_per_switch: 1}",
    "nue": "{kind: dragonfly, a: 4, p: 2, h: 2, g: 9}",
}
MORE = {"nue": ("--nue_max_num_vls", "4")}
QUICK = "dfsssp"


def managed(softib: Softib, stock, engine: str, topology: str, *more: str) -> subprocess.Popen:
    """A running fabric ``sls`` with stock OpenSM as its master; the caller ends OpenSM."""
    (softib.folder / "sls.yaml").write_text(f"topology: {topology}\n")
    softib("up", "sls.yaml", "--sm", "external", "--detach")
    softib.env["OSM_CACHE_DIR"] = softib.env["OSM_TMP_DIR"] = str(softib.folder)
    log = softib.folder / "opensm.log"
    if engine == "torus-2QoS":
        from softib.fabric.topologies.spec import load_fabric_yaml

        f = load_fabric_yaml(softib.folder / "sls.yaml").fabric
        (softib.folder / "torus.conf").write_text(torus_config(f))
        more = (*more, "--torus_config", str(softib.folder / "torus.conf"))
    words = ["run", "--", stock("opensm"), "-f", str(log), "-d2", "-Q", "-R", f"{engine},no_fallback", *more]
    sm = subprocess.Popen(
        softib.words(*words),
        env=softib.env,
        cwd=softib.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(), SECONDS), log.read_text()[-800:]
    return sm


def ended(sm: subprocess.Popen) -> None:
    """``softib run`` hands the signal on to its program."""
    sm.terminate()
    sm.wait(60)


@pytest.mark.parametrize("engine", [e if e == QUICK else pytest.param(e, marks=pytest.mark.slow) for e in CASES])
def test_no_credit_loop_where_slid_and_sl2vl_leave_none(engine, softib, stock):
    sm = managed(softib, stock, engine, CASES[engine], *MORE.get(engine, ()))
    try:
        codes = [f["code"] for f in said(softib, "check", "sls", code=None)["findings"]]
        assert "credit-loop" not in codes
        # OpenSM's lash and torus-2QoS give both directions of a path one SL, its dfsssp and nue do not.
        assert ("credit-loop-answers" in codes) == (engine in ("dfsssp", "nue"))
        if engine == QUICK:
            return
        routing = said(softib, "route", "sls")
        assert routing["deadlock_free"] and routing["unreachable"] == 0
        report = said(softib, "report", "sls")
        assert report["routing"]["deadlock_free"] and "credit-loop" not in [f["code"] for f in report["findings"]]
        if engine != "lash":  # lash's own tables may be free of cycles; else the SLs were asked for and are told
            assert any("from the subnet administration" in n for n in routing["notes"])
            # Without the administration it is a loop "if all paths use one SL", and no more than a warning.
            ended(sm)
            blind = said(softib, "check", "sls", code=1)
            (loop,) = [f for f in blind["findings"] if f["code"] == "credit-loop"]
            assert loop["severity"] == "warning" and loop["message"].endswith("if all paths use one SL")
    finally:
        ended(sm)


@pytest.mark.slow
def test_a_manager_that_left_is_not_waited_for(softib):
    """Three timeouts of ten seconds would pass; the port at its LID does not say IsSM any more."""
    (softib.folder / "torus.yaml").write_text("topology: {kind: torus, dims: [5, 5]}\n")
    softib("up", "torus.yaml", "--sm", "external", "--detach")
    own(softib, "sm", "run", "--once", "--engine", "lash")
    began = time.monotonic()
    found = said(softib, "route", "torus", code=None)
    assert time.monotonic() - began < 25
    assert "the subnet manager at LID" in found["sls_assumed"] and "is no longer there" in found["sls_assumed"]


def test_a_planted_loop_is_still_found(softib):
    """Our own administrator, every path on SL 0: a note states it, and the loop is an error."""
    (softib.folder / "loop.yaml").write_text("topology: {kind: ring, switches: 6}\nsm: {engine: minhop}\n")
    softib("up", "loop.yaml", "--detach")
    found = said(softib, "check", "loop", code=1)
    (loop,) = [f for f in found["findings"] if f["code"] == "credit-loop"]
    assert loop["severity"] == "error" and "if all paths" not in loop["message"]
    assert any("from the subnet administration: 0" in n for n in said(softib, "route", "loop", code=1)["notes"])


def test_a_dump_of_tables_tells_no_sls(tmp_path):
    from tests.cli.run import softib as run

    (tmp_path / "ring.yaml").write_text("topology: {kind: ring, switches: 6}\n")
    dump = tmp_path / "ring.lft"
    assert run("route", tmp_path / "ring.yaml", "--engine", "minhop", "--dump", dump).code == 1
    ran = run("report", tmp_path / "ring.yaml", "--lfts", dump, "--json")
    (loop,) = [f for f in ran.json()["findings"] if f["code"] == "credit-loop"]
    assert loop["severity"] == "warning" and "if all paths use one SL" in loop["message"]
    ran = run("report", tmp_path / "ring.yaml", "--engine", "minhop", "--json")
    assert [f["severity"] for f in ran.json()["findings"] if f["code"] == "credit-loop"] == ["error"]
