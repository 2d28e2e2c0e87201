"""A running fabric, watched from outside: rounds through its umad socket, a planted bit error rate, ``softib exporter`` and ``softib top``."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pytest

import softib as library
from tests.live.serving import wait_for
from tests.monitor.exporter.exporting import address_of


@pytest.fixture
def running(softib, monkeypatch):
    softib.start("one.yaml", "--name", "one")
    monkeypatch.setenv("XDG_RUNTIME_DIR", softib.env["XDG_RUNTIME_DIR"])
    return softib


def test_rounds_see_the_bad_cable_and_no_other(running):
    pytest.importorskip("rich")
    running("fault", "ber", "leaf-1[3]", "1e-8")
    seen = library.observe("one", rounds=3, every=0.3)
    of = seen.observations
    assert of.intervals == 2 and len(of.ports) == 32 and (of.seconds("port_rcv_errors") > 0.5).all()
    # HDR lanes have RS-FEC: what it mends shows the rate. One cable has two ends.
    mended = of.total("port_fec_corrected_symbol_ctr")
    (a, b) = np.flatnonzero(mended).tolist()
    assert of.ports.peer[a] == b and {"leaf-1[3]"} <= {f"{of.ports.node[i]}[{of.ports.portnum[i]}]" for i in (a, b)}
    bits = of.seconds("port_fec_corrected_symbol_ctr")[a] * 4 * 53.125e9
    assert 0.8e-8 < mended[a] / bits < 1.25e-8
    assert all(r["ports"] == 32 and r["silent"] == 0 for r in seen.rounds)
    # The exporter once, for a textfile collector.
    text = running("exporter", "one", "--once")
    assert 'softib_sm_state{sm="' in text and 'state="MASTER"' in text and "softib_up 1.0" in text
    assert (
        float(re.search(r"^softib_sa_requests_total (\S+)$", text, re.M)[1]) >= 1 and "softib_sa_busy_total 0.0" in text
    )
    waits = [float(v) for v in re.findall(r'^softib_sa_wait_seconds_bucket\{le="[^"]+"\} (\S+)$', text, re.M)]
    assert (
        waits == sorted(waits)
        and waits[-1] >= 1
        and float(re.search(r"^softib_sa_wait_seconds_count (\S+)$", text, re.M)[1]) == waits[-1]
    )
    if shutil.which("ibnetdiscover"):  # treydock's exporter takes its labels from there
        lines = [
            one.split() for one in running("run", "--node", "host-0001", "--", "ibnetdiscover", "--ports").splitlines()
        ]
        theirs = {(w[3], w[2]) for w in lines if len(w) > 8 and w[0] in ("CA", "SW") and w[5] != "???"}
        ours = set(re.findall(r'infiniband_(?:hca|switch)_uplink_info{guid="(\w+)",port="(\d+)"', text))
        assert theirs == ours and len(ours) == 32
    ratio = [
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("softib_port_raw_ber{") and not line.endswith(" 0")
    ]
    assert len(ratio) == 2 and all(0.8e-8 < r < 1.25e-8 for r in ratio)
    # One screen, without a terminal.
    screen = running("top", "one", "--rounds", "2", "--every", "0.2", "--sort", "busy")
    assert "32 of 32 ports read" in screen and "MASTER" in screen and "busiest ports" in screen and "leaf-" in screen
    assert "no running fabric has this name" in running("exporter", "nobody", code=2)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    assert "use --port for another one" in running("exporter", "one", "--port", str(taken.getsockname()[1]), code=2)
    taken.close()
    # A screen that is driven step by step.
    with library.TopView("one") as view:
        assert "first round" in view.text()
        view.step()
        assert "one more round" in view.text()
        running("fault", "ber", "leaf-2[1]", "1e-3")
        time.sleep(0.3)
        view.step()
        view.sort("errors")
        assert "erring ports" in view.text() and "leaf-2[1]" in view.text()
        assert len(view.text(lines=10).splitlines()) <= 12
        view.sort("waiting")
        assert "nothing waits" in view.text()
        with pytest.raises(library.InputError):
            view.sort("colour")


def test_what_was_dead_or_slow_before_the_first_round_is_named(running):
    """A switch without power has no counters; neither has a cable that is out; one that trained low moves none."""
    running("fault", "switch-down", "spine-2")
    running("fault", "link-down", "leaf-1[2]")
    running("fault", "downgrade", "leaf-2[3]", "--width", "1")
    assert wait_for(lambda: "link-narrow" in running("check", "one", code=1)), "the link trains again"
    found = library.diagnose(library.observe("one", rounds=2, every=0.3), "one").at_least("warning")
    named = {place for f in found for place in map(str, f.where)}
    assert "spine-2" in named and "leaf-2[3]" in named and {"leaf-1[2]", "host-0002"} & named, list(found)


@pytest.mark.slow
def test_the_exporter_serves_and_ends_with_its_fabric(running):
    exporter = subprocess.Popen(
        running.words("exporter", "one", "--port", "0", "--every", "0.5", "--names", "guilbaults"),
        env=running.env,
        stderr=subprocess.PIPE,
        text=True,
    )
    running.started.append(exporter)
    url = address_of(exporter)
    page = lambda: urllib.request.urlopen(url, timeout=60).read().decode()
    assert wait_for(lambda: "infiniband_scrape_ok 1.0" in page()), page()
    assert 'infiniband_portxmitdata_total{component="switch",local_name="leaf-1"' in page()
    assert urllib.request.urlopen(url.replace("/metrics", "/-/healthy"), timeout=60).status == 200
    running("down", "one")
    assert exporter.wait(20) == 2
    last = exporter.stderr.read().strip().splitlines()
    assert "went down" in last[-1] and not any("Traceback" in one for one in last)
