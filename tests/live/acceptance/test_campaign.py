"""perftest's output, launchers, the journal. Oracles: what Debian's perftest printed, ssh's and timeout's exit codes; programs in place of ssh and perftest."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from itertools import count

import pytest

import softib
from softib.errors import InputError, PeerError, UnreadableFile
from softib.live.acceptance.journal import Journal, read_journal
from softib.live.acceptance.launchers import HostPort, Launcher, launcher_named
from softib.live.acceptance.perftest import Run, arguments, parse, reason_of

BANDWIDTH = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 local address: LID 0x16 QPN 0x0003 PSN 0x715dc2 RKey 0x000102 VAddr 0x007f112a4ff000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    200              336.95             246.21 \t\t   0.029350
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          1.02           5.51         1.49     \t       1.52        \t0.10\t\t1.62 \t\t5.51
"""
FAKE_SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; [ "$1" = "${1#-}" ] && case "$1" in *=*) shift;; esac; done
host=$1; shift
[ "$host" = away ] && { echo "ssh: connect to host away port 22: Connection refused" >&2; exit 255; }
HOST=$host PATH=$PROGRAMS/$host:$PROGRAMS/all:$PATH exec setsid -w sh -c "$*"
"""
FAKE_PERFTEST = """#!/usr/bin/python3
import os, socket, sys, time
a = sys.argv[1:]
port, client = int(a[a.index("-p") + 1]), not a[-1].isdigit() and not a[-1].startswith("-")
if client:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        print("Couldn't connect to 127.0.0.1:%d" % port); sys.exit(1)
    open(os.environ["LOG"], "a").write("%s %s\\n" % (os.environ["HOST"], a[-1]))
    slow = "node3" in (os.environ["HOST"], a[-1])
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536    1000    101.0    %s    0.02" % (40.5 if slow else 100.0 + len(os.environ["HOST"]) / 10))
else:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port)); s.listen(); s.settimeout(20); s.accept()
"""

FAKE_LATENCY = """#!/usr/bin/python3
import os, signal, socket, sys, time
a, name = sys.argv[1:], os.path.basename(sys.argv[0])
port, client = int(a[a.index("-p") + 1]), not a[-1].isdigit() and not a[-1].startswith("-")
if not client:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port)); s.listen(); s.settimeout(20); c, _ = s.accept(); c.settimeout(60); c.recv(1)
    sys.exit(0)
try:
    c = socket.create_connection(("127.0.0.1", port), 5)
except OSError:
    print("Couldn't connect to 127.0.0.1:%d" % port); sys.exit(1)
sends = os.environ["LOG"] + ".d"
if name == "ib_write_bw":
    assert "-D" in a and "-b" in a and "-n" not in a, a
    if os.environ.get("NO_LOAD"):
        print("Failed to modify QP to RTR"); sys.exit(1)
    os.makedirs(sends, exist_ok=True)
    mark = os.path.join(sends, str(os.getpid()))
    open(mark, "w").close()
    signal.signal(signal.SIGTERM, lambda *_: (os.unlink(mark), sys.exit(143)))
    time.sleep(60)
print(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]")
print(" 2 1000 1.0 9.0 %d.5 2.0 0.1 3.0 4.0" % len(os.listdir(sends)))
"""

PORTS = count(12000 + os.getpid() % 8 * 2500, 300)  # others may test on this machine


def test_the_table_is_read_by_its_headings():
    assert parse(BANDWIDTH, False) == 246.21
    assert parse(LATENCY, True) == 1.49
    with pytest.raises(PeerError, match="Couldn't connect"):
        parse("---\nCouldn't connect to node2:18515\n", False)
    with pytest.raises(PeerError, match="no table"):
        parse(LATENCY, False)


def test_the_reason_is_the_line_that_says_why():
    assert reason_of("---\n Unable to open device\nCouldn't connect to a:1\n---\n") == "Couldn't connect to a:1"
    assert reason_of("bash: ib_write_bw: command not found\n") == "bash: ib_write_bw: command not found"
    refused = "ib_write_bw: unrecognized option '--use_cuda=1'\n Invalid Command or flag.\n Please check command line and run again.\n"
    assert "built without CUDA" in reason_of(refused + " Parser function exited with Error\n")


def test_arguments_are_perftests():
    run = Run("write", False, True, 65536, 100, 18515)
    assert arguments(run, "mlx5_1", 2, "node-2") == (
        [
            "ib_write_bw",
            "-F",
            "-s",
            "65536",
            "-n",
            "100",
            "-p",
            "18515",
            "-d",
            "mlx5_1",
            "-i",
            "2",
            "--report_gbits",
            "-b",
            "node-2",
        ]
    )
    assert arguments(Run("send", True, False, 2, 100, 1), "", 1, None) == [
        "ib_send_lat",
        "-F",
        "-s",
        "2",
        "-n",
        "100",
        "-p",
        "1",
    ]


def test_launchers_name_the_host():
    at = HostPort("node-1 mlx5_0", "node-1", "mlx5_0", 1)
    host, remote = launcher_named("ssh").command(at, ["ib_write_bw", "-d", "a b"], 30)[-2:]
    assert host == "node-1" and shlex.split(remote)[3:] == [
        "sh",
        "timeout",
        "-k",
        "2",
        "30",
        "ib_write_bw",
        "-d",
        "a b",
    ]
    assert "--nodelist=node-1" in launcher_named("srun").command(at, ["x"], 30)
    assert Launcher("local", "pod").command(at, ["x"], 30)[6:8] == ["--node", "node-1 mlx5_0"]
    with pytest.raises(InputError, match="did you mean ssh"):
        launcher_named("sshd")


def test_a_journal_that_was_cut_off_loses_its_last_line_alone(tmp_path):
    path = tmp_path / "j"
    one = Journal(path, {"source": "x"})
    one.add({"round": 0, "test": "latency", "part": 0, "values": [[0, 1, 1.5]], "failures": []})
    with path.open("a") as file:
        file.write('{"round": 1, "test": "lat')
    two = Journal(path, {"source": "x"}, resume=True)
    assert len(two.entries) == 1
    two.add({"round": 1, "test": "latency", "part": 0, "values": [], "failures": []})
    assert [e["round"] for e in read_journal(path).entries] == [0, 1]
    with pytest.raises(InputError, match="--resume"):
        Journal(path, {"source": "x"})
    with pytest.raises(InputError, match="another source"):
        Journal(path, {"source": "y"}, resume=True)


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "not a journal\n", '{"softib_accept_journal": 2}\n'])
def test_a_file_that_is_not_a_journal_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "j").write_text(text)
    with pytest.raises(UnreadableFile) as raised:
        read_journal(tmp_path / "j")
    assert "\n" not in str(raised.value)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Hosts that a program in ssh's place reaches, with a program in perftest's place."""
    for folder, name, text in (("bin", "ssh", FAKE_SSH), ("all", "ib_write_bw", FAKE_PERFTEST)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        (tmp_path / folder / name).chmod(0o755)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "ib_write_bw").write_text(
        "#!/bin/sh\necho 'bash: ib_write_bw: command not found' >&2\nexit 127\n"
    )
    (tmp_path / "bare" / "ib_write_bw").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PROGRAMS", str(tmp_path))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path


def measured(cluster, hosts, **more):
    return softib.accept(
        hosts, tests=["bandwidth-both-loaded"], rounds=None, base_port=next(PORTS), seconds=0.01, **more
    )


def test_hosts_that_fail_are_named_with_the_reason_and_the_rest_goes_on(cluster):
    found = measured(cluster, ["node1", "node2", "away", "node4", "bare"])
    reasons = {f.evidence["hosts"][0]: f.evidence["reason"] for f in found.findings.of("host-unmeasured")}
    assert reasons == {
        "away": "ssh: connect to host away port 22: Connection refused",
        "bare": "bash: ib_write_bw: command not found",
    }
    pairs = {tuple(sorted(p)) for p in found.measurements.pairs("bandwidth-both-loaded")}
    assert pairs == {("node1", "node2"), ("node1", "node4"), ("node2", "node4")}


def test_a_slow_host_is_named_without_any_fabric(cluster):
    found = measured(cluster, [f"node{i}" for i in range(1, 9)])
    assert [f.message.split(":")[0] for f in found.findings.of("slow-host")] == ["node3"]
    assert len(found.measurements) == 28, "all pairs of eight"


def test_a_run_goes_on_where_it_ended(cluster):
    journal, hosts = cluster / "run.jsonl", ["node1", "node2", "node4", "node5"]
    measured(cluster, hosts, journal=journal)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:2]) + lines[2][:20])
    (cluster / "log").unlink()
    found = measured(cluster, hosts, journal=journal, resume=True)
    assert len(found.measurements) == 6
    assert len((cluster / "log").read_text().splitlines()) == 4, "what was measured is not measured twice"
    (cluster / "all" / "ib_write_bw").unlink()
    assert len(measured(cluster, hosts, journal=journal, resume=True).measurements) == 6
    json.dumps(found.to_json())


def on_host(program: list[str]) -> subprocess.Popen[bytes]:
    """What ssh's other end runs of ``program``."""
    remote = launcher_named("ssh").command(HostPort("n", "n", "", 1), program, 30)[-1]
    return subprocess.Popen(
        ["sh", "-c", remote], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_a_host_keeps_exit_code_and_output_while_connected():
    with on_host(["sh", "-c", "echo word; exit 7"]) as program:
        assert program.stdout.read() == b"word\n"
        assert program.wait(60) == 7


def test_a_program_ends_with_its_connection_however_early():
    """Its output ends too: a program that is left holds the pipe, and sshd the session."""
    for i in range(30):
        with on_host(["sleep", "25"]) as program:
            time.sleep(i * 0.3e-3)
            program.stdin.close()
            program.stdin = None
            assert program.communicate(timeout=60)[0] is not None


def test_hosts_come_from_files_and_lists(tmp_path):
    from softib.analysis.jobs.files import read_hosts

    (tmp_path / "hosts").write_text("# ours\nnode1 slots=8\nnode2:4\n\nnode[3-4]  # rack 2\nnode1\n")
    assert read_hosts(tmp_path / "hosts") == ["node1", "node2", "node3", "node4"]
    assert read_hosts("a[01-02],b") == ["a01", "a02", "b"]
    for bad in ("-oProxyCommand=x,b", "", "a;b,c"):
        with pytest.raises(InputError):
            read_hosts(bad)


@pytest.fixture
def loadable(cluster):
    for name in ("ib_write_bw", "ib_write_lat"):
        (cluster / "all" / name).write_text(FAKE_LATENCY)
        (cluster / "all" / name).chmod(0o755)
    return cluster


def beside(hosts: list[str], **more):
    return softib.accept(hosts, tests=["latency-with-bandwidth"], rounds=1, base_port=next(PORTS), seconds=0.01, **more)


@pytest.mark.slow
def test_latency_is_measured_while_the_others_send(loadable):
    """The program in ib_write_lat's place counts those that send at that moment: three of four pairs, and none is left afterwards."""
    found = beside([f"node{i}" for i in range(1, 9)], journal=loadable / "run.jsonl")
    assert found.table()["value"].to_list() == [3.5] * 4
    assert [e["loads"] for e in read_journal(loadable / "run.jsonl").entries] == [[3, 3]] * 4
    end = time.monotonic() + 60
    while os.listdir(loadable / "log.d") and time.monotonic() < end:
        time.sleep(0.05)
    assert os.listdir(loadable / "log.d") == []


@pytest.mark.slow
def test_no_latency_is_called_loaded_where_nothing_loads(loadable, monkeypatch):
    monkeypatch.setenv("NO_LOAD", "1")
    found = beside([f"node{i}" for i in range(1, 5)])
    assert len(found.measurements) == 0
    assert {f["reason"] for f in found.failures} == {"no pair loads the fabric: Failed to modify QP to RTR"}
