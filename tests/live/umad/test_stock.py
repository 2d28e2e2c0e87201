"""Stock programs under our library: libibumad, the diagnostics, OpenSM and shell scripts, unmodified."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.live.sysfs.files import rate_text
from softib.live.umad import requests
from softib.live.umad.file import UmadFile
from softib.scenario.bring_up import bring_up
from tests.live.serving import run, wait_for
from tests.live.umad.serving import PROGRAM, UmadServing

pytestmark = pytest.mark.stock


@pytest.fixture
def served(own_library):
    s = UmadServing(generate("rail-optimized", nodes=2, rails=2, radix=8), own_library)
    s.do(lambda: bring_up(s.fabric, plane=s.router.plane))
    yield s
    s.stop()


def records(text: str, kind: str) -> int:
    return len(re.findall(rf"^{kind} dump:", text, re.MULTILINE))


def opensm(served, stock, tmp_path, node: str, *settings: str) -> subprocess.Popen:
    env = {**served.environment(node), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    (tmp_path / "opensm.conf").write_text("".join(f"{line}\n" for line in settings))
    words = [
        stock("opensm"),
        "-F",
        str(tmp_path / "opensm.conf"),
        "-f",
        str(tmp_path / "opensm.log"),
        "-e",
        "-d2",
    ]  # -d2: a log that is written at once
    return subprocess.Popen(words, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL)


def up(tmp_path) -> bool:
    log = tmp_path / "opensm.log"
    return log.is_file() and "SUBNET UP" in log.read_text(errors="replace")


def test_sysfs_in_a_shell(served, tmp_path):
    env = served.environment("node-001")
    code, out = run(tmp_path, env, "bash", "-c", "cat /sys/class/infiniband/*/ports/1/{state,rate}")
    port = served.view("node-001").umads[0]
    assert code == 0 and out.splitlines() == ["4: ACTIVE"] * 2 + [rate_text(served.fabric, port)] * 2
    assert rate_text(served.fabric, port) == "400 Gb/sec (4X NDR)"
    script = (
        "cd /sys/class/infiniband/mlx5_1 && [ -d ports/1 ] && [ -f node_guid ] && test -r ports/1/lid && "
        "ls ports/1/counters | wc -l && find /sys/class/infiniband_mad -name ibdev | wc -l && "
        "grep -h . ports/1/link_layer < /sys/class/infiniband/mlx5_1/node_type && stat -c %s node_type"
    )
    code, out = run(tmp_path, env, "sh", "-c", script)
    assert code == 0 and out.split() == ["21", "4", "InfiniBand", "6"], out


def test_sysfs_is_live_also_through_a_working_directory(served, tmp_path):
    """A shell that sits in the port's directory sees the link fall and the counters move."""
    port = served.view("node-001").umads[0]
    shell = subprocess.Popen(
        ["sh"], env=served.environment("node-001"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def say(line: str) -> str:
        shell.stdin.write(line + "\n")
        shell.stdin.flush()
        return shell.stdout.readline().strip()

    assert say("cd /sys/class/infiniband/mlx5_0/ports/1; cat state") == "4: ACTIVE"
    served.set_link(port, False)
    assert say("cat state") == "1: DOWN" and say("cat phys_state") != "5: LinkUp"
    served.fabric.counters["port_xmit_data"][port] = 2**40 + 7
    served.fabric.counters["symbol_error_counter"][port] = 2**40
    assert say("cat counters/port_xmit_data") == str(2**40 + 7)
    assert say("cat /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error") == "65535"
    shell.stdin.close()
    assert shell.wait(120) == 0


def test_ibstat_and_ibstatus(served, stock, tmp_path):
    env, f = served.environment("node-001"), served.fabric
    code, out = run(tmp_path, env, stock("ibstat"))
    ports = served.view("node-001").umads
    assert code == 0 and re.findall(r"CA '(\w+)'", out) == ["mlx5_0", "mlx5_1"]
    assert re.findall(r"Base lid: (\d+)", out) == [str(f.lid[p]) for p in ports]
    assert re.findall(r"Port GUID: (\w+)", out) == [f"{int(f.port_guid[p]):#018x}" for p in ports]
    assert re.findall(r"Rate: (\d+)", out) == ["400", "400"] and out.count("State: Active") == 2
    code, out = run(tmp_path, env, stock("ibstatus"))
    assert code == 0 and out.count("400 Gb/sec (4X NDR)") == 2 and out.count("4: ACTIVE") == 2, out


def test_diagnostics(served, stock, tmp_path):
    env, f = served.environment("node-001"), served.fabric
    port = served.view("node-002").umads[1]
    lid = str(f.lid[port])
    code, out = run(tmp_path, env, stock("ibnetdiscover"))
    assert code == 0 and len(re.findall(r"^(?:Switch|Ca)\t", out, re.MULTILINE)) == f.sizes.nodes
    code, out = run(tmp_path, env, stock("iblinkinfo"))
    assert code == 0 and len(re.findall(r"Active/  LinkUp", out)) >= 2 * f.sizes.cables - len(f.cas)
    code, out = run(tmp_path, env, stock("smpquery"), "nodedesc", lid)
    assert code == 0 and out.strip().endswith(f.node_name(int(f.port_node[port])))
    f.counters["port_multicast_rcv_pkts"][port] = 2**50
    code, out = run(tmp_path, env, stock("perfquery"), "-x", lid, "1")
    assert code == 0 and re.search(rf"PortMulticastRcvPkts:\.+{2**50}\n", out), out
    # From the second adapter of the same host.
    code, out = run(tmp_path, env, stock("smpquery"), "-C", "mlx5_1", "-D", "nodeinfo", "0")
    guid = int(f.node_guid[f.port_node[served.view("node-001").umads[1]]])
    assert code == 0 and f"{guid:#018x}" in out


NO_ANSWER = "mad_rpc: _do_madrpc failed; dport (Lid 4000)"
"""What libibmad says in the end, whichever came first: the end of its own wait, of the same length, or the request that comes back."""


def test_a_lid_that_nobody_has_costs_its_timeout(served, stock, tmp_path):
    env = served.environment("node-001")
    began = time.monotonic()
    code, out = run(tmp_path, env, stock("smpquery"), "-t", "250", "nodeinfo", "4000")
    took = time.monotonic() - began
    assert code and NO_ANSWER in out and took >= 0.25, (took, out)


def test_a_request_that_comes_back_is_sent_three_times(served, stock, tmp_path, monkeypatch):
    """Here the daemon's time is over long before the program's own, as on a machine where the program is late: libibmad repeats."""
    monkeypatch.setattr(requests, "MS_PS", 1)
    given_back, time_out = [], UmadFile.time_out
    monkeypatch.setattr(UmadFile, "time_out", lambda *args: (given_back.append(args), time_out(*args)))
    code, out = run(tmp_path, served.environment("node-001"), stock("smpquery"), "-t", "60000", "nodeinfo", "4000")
    assert code and NO_ANSWER in out and len(given_back) == 3, out


def test_opensm_brings_the_subnet_up_and_saquery_lists_every_record(own_library, stock, tmp_path):
    """RMPP both ways: 152 nodes make tables of 17 KiB to 1.4 MiB."""
    served = UmadServing(generate("fat-tree", radix=16, levels=2), own_library)
    f = served.fabric
    served.do(lambda: power_on(f))
    sm = opensm(served, stock, tmp_path, "host-0001", "transaction_timeout 10000")
    try:
        assert wait_for(lambda: up(tmp_path))
        assert (f.port_state[f.linked] == PortState.ACTIVE).all()
        env = served.environment("host-0005")
        code, out = run(tmp_path, env, stock("sminfo"))
        assert code == 0 and "SMINFO_MASTER" in out
        ends = len(f.end_ports())
        assert f.sizes.nodes > 100
        for words, kind, wanted in (
            ([], "NodeRecord", f.sizes.nodes),
            (["-p"], "PathRecord", ends * ends),
            (["-x"], "LinkRecord", 2 * f.sizes.cables),
        ):
            code, out = run(tmp_path, env, stock("saquery"), *words)
            assert code == 0 and records(out, kind) == wanted, (kind, out[-500:])
        lids = {int(x) for x in re.findall(r"^\t\tlid\.+(\d+)$", run(tmp_path, env, stock("saquery"))[1], re.MULTILINE)}
        assert lids == set(f.lid[f.end_ports()].tolist())
        # A second manager stays standby, and takes over when the first is killed.
        (tmp_path / "two").mkdir()
        second = opensm(
            served, stock, tmp_path / "two", "host-0002", "sminfo_polling_timeout 300", "polling_retry_number 2"
        )
        try:
            log = tmp_path / "two" / "opensm.log"
            assert wait_for(lambda: log.is_file() and "Entering STANDBY" in log.read_text(errors="replace"))
            sm.send_signal(signal.SIGKILL)
            assert wait_for(lambda: "SUBNET UP" in log.read_text(errors="replace"))
        finally:
            second.kill()
            second.wait()
        assert "ERR" not in (tmp_path / "opensm.log").read_text(errors="replace")
        # The standby's polls of the dead master timed out, and nothing else went wrong.
        errors = set(re.findall(r"ERR (\w+)", log.read_text(errors="replace")))
        assert errors == {"5411", "3113", "3120"}, errors
    finally:
        sm.kill()
        sm.wait()
        served.stop()


def test_two_programs_at_once_and_one_killed(served, stock, tmp_path):
    """Each gets its own answers; a program that dies in the middle disturbs no other."""
    env = served.environment("node-001")
    loop = "for i in 1 2 3 4 5 6; do ibnetdiscover | sort | sha256sum; done"
    words = ["sh", "-c", loop]
    stock("ibnetdiscover")
    runs = [subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(3)]
    doomed = [
        subprocess.Popen([sys.executable, "-c", "pass"], env=env),
        *(subprocess.Popen([stock("iblinkinfo")], env=env, stdout=subprocess.DEVNULL) for _ in range(5)),
    ]
    for i, p in enumerate(doomed):
        time.sleep(0.005 * i)
        p.kill()
    outs = [p.communicate(timeout=240)[0].splitlines() for p in runs]
    for p in doomed:
        p.wait()
    # What differs between runs is the time in the first line.
    assert [len(o) for o in outs] == [6, 6, 6]
    code, out = run(tmp_path, env, stock("ibnetdiscover"))
    assert code == 0 and len(re.findall(r"^(?:Switch|Ca)\t", out, re.MULTILINE)) == served.fabric.sizes.nodes
    assert wait_for(lambda: not served.umads.files)


def test_under_address_sanitizer(sanitized, stock, tmp_path):
    library, asan = sanitized
    served = UmadServing(generate("rail-optimized", nodes=2, rails=2, radix=8), library, before=asan)
    served.do(lambda: bring_up(served.fabric, plane=served.router.plane))
    options = {"ASAN_OPTIONS": f"detect_leaks=0:log_path={tmp_path}/asan", "UBSAN_OPTIONS": "print_stacktrace=1"}
    try:
        env = {**served.environment("node-001"), **options}
        lid = str(served.fabric.lid[served.view("node-001").umads[1]])
        for scene in ("registration", "rules", "waiting", "timeouts"):
            served.program(scene, "node-001", **options)
        served.program("both_ends", "node-001", lid, **options)
        for words in (("ibstat",), ("ibnetdiscover",), ("smpquery", "-t", "100", "nodeinfo", "4000"), ("ibstatus",)):
            run(tmp_path, env, stock(words[0]), *words[1:])
        assert not [p for p in os.listdir(tmp_path) if p.startswith("asan")]
        # The sanitizer is there: it would have spoken.
        _, out = run(tmp_path, {**env, "ASAN_OPTIONS": "help=1"}, "/bin/true")
        assert "Available flags for AddressSanitizer" in out
    finally:
        served.stop()


def test_seen_without_a_daemon(own_library, stock, tmp_path):
    """Whoever outlives the daemon gets errors, not hangs."""
    served = UmadServing(generate("rail-optimized", nodes=2, rails=2, radix=8), own_library)
    env = served.environment("node-001")
    one = subprocess.Popen(
        [sys.executable, "-I", str(PROGRAM), "hold"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert one.stdout.readline() == "holding\n"
    served.stop()
    assert "Errno 5" in one.communicate(timeout=240)[1]
    code, _ = run(tmp_path, env, stock("ibnetdiscover"), seconds=240)
    assert code


def test_rates_are_the_kernels():
    """``<Gb/s> Gb/sec (<lanes>X <speed>)`` for every generation, as the kernel prints them."""
    known = {
        "SDR": "10 Gb/sec (4X SDR)",
        "DDR": "20 Gb/sec (4X DDR)",
        "QDR": "40 Gb/sec (4X QDR)",
        "FDR": "56 Gb/sec (4X FDR)",
        "EDR": "100 Gb/sec (4X EDR)",
        "HDR": "200 Gb/sec (4X HDR)",
        "NDR": "400 Gb/sec (4X NDR)",
        "XDR": "800 Gb/sec (4X XDR)",
    }
    for speed, text in known.items():
        f = generate("fat-tree", radix=4, levels=2, generation=speed)
        ports = np.flatnonzero(f.linked)
        assert {rate_text(f, int(p)) for p in ports} == {text}
