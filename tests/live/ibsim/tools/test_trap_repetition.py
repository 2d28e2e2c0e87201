"""Traps that got lost are sent again, by the daemon's clock, until the manager represses them: with stock OpenSM, with ours,
and with a program that never answers."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter

import pytest

from softib.agents import trap_queue
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.live.mad_capture import MadCapture
from tests.live.ibsim.tools.tool_answers import named
from tests.live.ibsim.tools.tool_lab import STOCK_FIRST, Lab
from tests.live.ibsim.tools.trap_listener import Heard, Listener
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock


def small():
    return generate("fat-tree", radix=4, levels=2, generation="QDR")


@pytest.fixture(params=STOCK_FIRST)
def heard(request, tmp_path, monkeypatch):
    """Stock OpenSM on the first host. A trap is sent until it is repressed: on a busy machine, ten copies go before OpenSM has begun."""
    monkeypatch.setattr(trap_queue, "MOST_SENDS", 10**6)
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin") or pytest.skip("opensm is not installed")
    lab = Lab(small(), tmp_path, sm="external")
    one = Heard(lab, opensm, request.param)
    try:
        yield one
    finally:
        one.sm.send_signal(signal.SIGCONT)
        one.sm.kill()
        one.sm.wait()
        lab.stop()


def counts(lab: Lab) -> dict[str, int]:
    return lab.do(lab.daemon_.router.trap_queue.stats)


def quiet(lab: Lab) -> None:
    assert wait_for(lambda: counts(lab)["pending"] == 0), counts(lab)


def heard_of(heard: Heard, lid: int) -> list[str]:
    """TIDs of the traps 128 of switch ``lid``, as OpenSM's log has them."""
    said = re.findall(r"num:128 \(.*?from LID:(\d+) TID:(0x[0-9a-f]+)", heard.text()[heard.mark :])
    return [tid for source, tid in said if int(source) == lid]


def test_opensm_that_was_stopped_hears_of_the_link_and_ends_the_trap(heard):
    lab = heard.lab
    edge = int(lab.f.port_peer[named(lab.f, "host-0008")])
    before = counts(lab)
    heard.forget()
    heard.sm.send_signal(signal.SIGSTOP)
    lab.fault("link-down", lab.f.port_name(edge))
    assert wait_for(lambda: counts(lab)["sent"] >= before["sent"] + 2), "it is sent again while nobody answers"
    assert counts(lab)["pending"] >= 1 and not heard_of(heard, lab.lid(edge))
    heard.sm.send_signal(signal.SIGCONT)
    quiet(lab)
    told = heard_of(heard, lab.lid(edge))
    assert len(told) >= 2 and int(told[0], 16) != 0, heard.text()[-2000:]


def test_a_trap_whose_way_was_cut_arrives_when_it_is_mended(heard):
    """The manager's own cable is out while another falls: the first copies are lost on the way."""
    lab = heard.lab
    near = int(lab.f.port_peer[named(lab.f, "host-0001")])
    far = int(lab.f.port_peer[named(lab.f, "host-0008")])
    heard.forget()
    before = counts(lab)["sent"]
    lab.fault("link-down", lab.f.port_name(near))
    lab.fault("link-down", lab.f.port_name(far))
    assert wait_for(lambda: counts(lab)["sent"] >= before + 2), (before, counts(lab), heard.text()[-2000:])
    assert not heard_of(heard, lab.lid(far))
    lab.fault("link-up", lab.f.port_name(near))
    assert wait_for(lambda: heard_of(heard, lab.lid(far))), heard.text()[-2000:]
    quiet(lab)


def test_the_wire_shows_no_copy_after_the_repression(heard, tmp_path):
    tshark = shutil.which("tshark") or pytest.skip("tshark is not installed")
    lab, file = heard.lab, tmp_path / "traps.pcap"
    edge = int(lab.f.port_peer[named(lab.f, "host-0008")])
    writer = MadCapture(str(file), lab.f)
    lab.do(lambda: (lab.daemon_.router.capture(writer),))
    before = counts(lab)["repressed"]
    lab.fault("link-down", lab.f.port_name(edge))
    assert wait_for(lambda: counts(lab)["repressed"] > before)
    heard.settle()
    lab.fault("link-up", lab.f.port_name(edge))
    assert wait_for(lambda: lab.f.port_state[edge] == 4), (counts(lab), heard.text()[-2000:])
    quiet(lab)
    lab.do(lambda: (writer.flush(),))
    said = subprocess.run(
        [
            tshark,
            "-r",
            str(file),
            "-Y",
            "infiniband.mad.attributeid == 0x0002",
            "-T",
            "fields",
            "-e",
            "infiniband.mad.method",
            "-e",
            "infiniband.mad.transactionid",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    methods: dict[str, list[int]] = {}
    for method, tid in (line.split("\t") for line in said if line):
        methods.setdefault(tid, []).append(int(method, 0))
    assert methods, said
    for tid, seen in methods.items():
        assert seen[-1] == 7 and 7 not in seen[:-1] and set(seen) == {5, 7}, (tid, seen)


@pytest.fixture
def brisk(monkeypatch):
    """A millisecond between traps."""
    monkeypatch.setattr(trap_queue, "SHORTEST_PS", 10**9)


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_a_program_that_never_represses_gets_ten_copies(library, tmp_path, brisk):
    lab = Lab(small(), tmp_path)
    listener = None
    try:
        quiet(lab)

        def retire() -> bool:  # in the daemon's thread: the manager would set SubnetTimeOut again
            lab.daemon_.manager_failed = True
            PortInfo.subnet_timeout.set(lab.f.port_info, 0)
            lab.daemon_.router.leave(lab.daemon_.manager)
            return True

        lab.do(retire)
        quiet(lab)  # that IsSM is gone nobody hears: given up
        listener = Listener(lab, library, "silent_manager", node="host-0001")
        listener.says("listening")
        before = counts(lab)
        edge = int(lab.f.port_peer[named(lab.f, "host-0008")])
        lab.fault("link-down", lab.f.port_name(edge))
        assert wait_for(lambda: counts(lab)["given_up"] > before["given_up"]), counts(lab)
        quiet(lab)
        mine = rf"trap 128 from {lab.lid(edge)} tid (\d+)"
        assert wait_for(lambda: len([x for x in listener.lines if re.fullmatch(mine, x)]) >= 10), listener.lines
        listener.program.stdin.close()
        listener.says("done")
        tids = Counter(m[1] for x in listener.lines if (m := re.fullmatch(mine, x)))
        assert list(tids.values()) == [10] and "0" not in tids, tids
    finally:
        if listener is not None:
            listener.stop()
        lab.stop()


def test_our_manager_represses_each_and_sweeps(tmp_path):
    lab = Lab(small(), tmp_path)
    try:
        quiet(lab)
        before, sweeps = counts(lab), lab.daemon_.manager.sm.sweeps
        edge = int(lab.f.port_peer[named(lab.f, "host-0008")])
        lab.fault("link-down", lab.f.port_name(edge))
        assert wait_for(lambda: lab.daemon_.manager.sm.sweeps > sweeps)
        quiet(lab)
        after = counts(lab)
        assert after["sent"] - before["sent"] == after["repressed"] - before["repressed"] >= 1
        # Its own cable falls, and then another: what is lost is told when it is back.
        near = int(lab.f.port_peer[named(lab.f, "host-0001")])
        lab.fault("link-down", lab.f.port_name(near))
        lab.fault("link-up", lab.f.port_name(edge))
        assert wait_for(lambda: counts(lab)["sent"] >= after["sent"] + 2) and counts(lab)["pending"] >= 1
        lab.fault("link-up", lab.f.port_name(near))
        assert wait_for(lambda: lab.f.port_state[edge] == 4), "it was told of the far one, too"
        quiet(lab)
        assert counts(lab)["given_up"] == 0
    finally:
        lab.stop()
