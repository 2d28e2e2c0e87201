"""M_Keys on a running fabric, with stock programs: without the key nothing changes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from softib.iba.smp import PortInfo
from tests.live.ibsim.lab import KEY, Tools, differs
from tests.live.serving import PRELOAD, wait_for


@pytest.fixture(params=["", pytest.param("stock", marks=pytest.mark.slow)])
def tools(request, softib, stock):
    """A fabric that stock OpenSM brought up and left."""
    if request.param and not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is absent")
    softib.start("one.yaml", "--sm", "none")
    softib.env["OSM_CACHE_DIR"] = softib.env["OSM_TMP_DIR"] = str(softib.folder)
    softib("run", "--", stock("opensm"), "-o", "-f", str(softib.folder / "osm.log"))
    return Tools(softib, stock, request.param)


READS = (("smpquery", "portinfo"), ("smpquery", "switchinfo"), ("smpquery", "nodedesc"), ("smpquery", "nodeinfo"))
WRITES = (("disable",), ("speed", "1"), ("width", "1"), ("down",), ("mtu", "1"), ("vls", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_who_lacks_the_key_changes_nothing(tools, level):
    """IBA 14.2.4.1: levels 0 and 1 let everybody read (1 hides the key), 2 and 3 nobody; only the owner writes."""
    leaf = "0,1"
    assert tools("ibportstate", "-D", leaf, "0", "mkey", KEY, "mkeyprot", str(level))[0]
    f = tools.fabric()
    guarded = np.flatnonzero(PortInfo.mkey.get(f.port_info))
    assert len(guarded) == 1 and int(PortInfo.mkey_protect.get(f.port_info)[guarded[0]]) == level
    violations = int(PortInfo.mkey_violations.get(f.port_info)[guarded[0]])
    for key in ((), ("-y", "0x1111")):
        for program, what in READS:
            patience = "60000" if level < 2 else "50"
            well, said = tools(
                program, "-K", "-t", patience, *key, "-D", what, leaf, *(("0",) if what == "portinfo" else ())
            )
            assert well == (level < 2), (program, what, key, said)
            if what == "portinfo" and well:
                assert (KEY in said) == (level == 0), "level 1 hides it"
        for words in WRITES:
            well, _ = tools("ibportstate", "-t", "50", *key, "-D", leaf, "3", *words)
            assert not well, words
    after = tools.fabric()
    assert differs(f, after) == set()
    assert int(PortInfo.mkey_violations.get(after.port_info)[guarded[0]]) > violations
    # The owner reads and writes.
    assert KEY in tools("smpquery", "-K", "-y", KEY, "-D", "portinfo", leaf, "0")[1]
    assert tools("ibportstate", "-y", KEY, "-D", leaf, "3", "disable")[0]
    assert differs(after, tools.fabric()) >= {"port_info"}


def test_a_lease_that_runs_out_lets_everybody_read(tools):
    """IBA 14.2.4.2: begun by a wrong key, ended by the right one; then the protection falls, the key stays."""
    leaf, lease_s = "0,1", 3
    assert tools("ibportstate", "-D", leaf, "0", "mkey", KEY, "mkeyprot", "2", "mkeylease", str(lease_s))[0]
    read = lambda *key: tools("smpquery", "-t", "50", *key, "-D", "nodedesc", leaf)[0]
    query = tools.stock("smpquery")
    script = f"{query} -t 50 -D nodedesc {leaf} && exit 1; {query} -t 50 -y {KEY} -D nodedesc {leaf}"
    assert tools("sh", "-c", script)[0], "the lease begins, and ends: the owner is there"
    time.sleep(lease_s + 0.2)
    assert not read(), "so nothing fell; it begins again"
    assert wait_for(read)
    well, _ = tools("ibportstate", "-t", "50", "-D", leaf, "3", "disable")
    assert not well, "only the owner writes still"
    assert tools("ibportstate", "-y", KEY, "-D", leaf, "3", "disable")[0]
