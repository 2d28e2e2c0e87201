"""``softib sm run`` on a running fabric: what it programs, what a dry run sends, whom it leaves alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from softib.fabric.node_finder import find_node
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.scenario.bring_up import bring_up
from tests.cli.documents import check
from tests.live.serving import wait_for
from tests.live.umad_sm.lab import fabric_of, is_up, management_methods, own


def test_it_programs_what_the_same_manager_programs_in_process(softib):
    softib("up", "net.yaml", "--sm", "external", "--detach")
    said = json.loads(own(softib, "sm", "run", "--once", "--json", "--log-file", "log").split("\nsoftib:")[0])
    assert check("sm-run", said)["state"] == "MASTER" and not said["problems"]
    assert said["sent"] == sum(said["mads"].values()) > said["sets"] > 0
    fabric, alone = fabric_of(softib), load_fabric_yaml(softib.folder / "net.yaml").fabric
    power_on(alone, keep_lids=True)
    bring_up(alone)
    assert is_up(fabric)
    assert (fabric.lid == alone.lid).all()
    assert (fabric.lft == alone.lft).all()
    events = [json.loads(line) for line in (softib.folder / "log").read_text().splitlines()]
    assert [e["event"] for e in events][:1] == ["begin"] and "sweep" in [e["event"] for e in events]
    assert (softib.folder / "run" / "softib" / "net" / "guid2lid").is_file()


def test_a_dry_run_and_a_source_send_no_set(softib, stock):
    """Counted on the fabric's side: its capture holds Gets alone.

    The daemon answers when this machine lets it run, so a request may wait for ten seconds; a source has no such option, and reads again where it says
    itself that somebody did not answer.
    """
    stock("tshark")
    softib("up", "net.yaml", "--sm", "external", "--pcap", "seen.pcap", "--detach")
    (softib.folder / "patient.conf").write_text("transaction_timeout 10000\n")
    run = ("sm", "run", "--dry-run", "--sm-config", "patient.conf")
    said = own(softib, *run)
    assert "LFT[" in said and "PortInfo[1].lid: 0" in said and "no change was made" in said
    planned = check("sm-run", json.loads(own(softib, *run, "--json").split("\nsoftib:")[0]))
    assert planned["master"] is None
    lids = {
        c["node"]
        for c in planned["changes"]
        if c["attribute"] == "PortInfo"
        for row in c["changes"]
        if row["what"] == "lid"
    }
    assert len(lids) == 36, "each node gets a LID"
    for _ in range(5):
        listing = own(softib, "convert", "umad:", "out.ibnetdiscover", code=None)
        if "is not answered" not in listing:
            break
    assert "20 switches, 16 channel adapters, 48 cables" in listing
    assert not is_up(fabric_of(softib))
    softib("down")
    methods = management_methods(softib.folder / "seen.pcap")
    assert methods[1] > 300 and methods[2] == 0


def test_a_live_master_is_left_alone_unless_told(softib):
    softib("up", "net.yaml", "--detach")
    said = own(softib, "sm", "run", "--once", node="host-0002", code=2)
    assert "has a master (LID 1" in said and "--take-over" in said
    assert softib.status()[0]["sm"]["state"] == "MASTER"
    own(softib, "sm", "run", "--once", "--take-over", node="host-0002")
    assert wait_for(lambda: softib.status()[0]["sm"]["state"] == "STANDBY")


def test_what_stands_as_wanted_shows_no_difference(softib):
    softib("up", "net.yaml", "--detach")
    assert "0 nodes and 0 attributes would change" in own(softib, "sm", "run", "--dry-run")


def test_sighup_reads_its_files_and_a_pulled_cable_is_routed_around(softib):
    softib("up", "net.yaml", "--sm", "external", "--detach")
    (softib.folder / "partitions").write_text("Default=0x7fff, ipoib: ALL=full;\n")
    words = softib.words(
        "run",
        "--",
        sys.executable,
        "-m",
        "softib.cli.main",
        "sm",
        "run",
        "--log-file",
        "log",
        "--Pconfig",
        "partitions",
        "--sweep",
        "1",
    )
    with (softib.folder / "printed").open("w") as printed:
        manager = subprocess.Popen(words, env=softib.env, cwd=softib.folder, stdout=printed)
    softib.started.append(manager)
    assert wait_for(lambda: is_up(fabric_of(softib)))
    pid = next(c["pid"] for c in softib.status()[0]["clients"] if c["sm"])
    (softib.folder / "partitions").write_text("Default=0x7fff, ipoib: ALL=full;\nstorage=0x0123: ALL=full;\n")
    os.kill(pid, signal.SIGHUP)
    assert wait_for(lambda: (fabric_of(softib).pkeys == 0x8123).sum() >= 16)
    softib("fault", "link-down", "leaf-1[3]")

    def around() -> bool:
        f = fabric_of(softib)
        leaf = next(s for s in range(f.sizes.switches) if f.node_name(int(f.switch_node[s])) == "leaf-1")
        return not (f.lft[leaf] == 3).any()

    assert wait_for(around)
    events = lambda: [json.loads(line)["event"] for line in (softib.folder / "log").read_text().splitlines()]
    for _ in range(2):  # sweeps that change no table
        swept = events().count("sweep")
        os.kill(pid, signal.SIGHUP)
        assert wait_for(lambda swept=swept: events().count("sweep") > swept)
    manager.terminate()
    manager.wait(60)
    told = (softib.folder / "printed").read_text()
    assert 1 <= told.count("tables by ") <= events().count("tables") < events().count("sweep")
    assert "0x" not in told, "notes name their nodes"


def test_a_standby_reports_no_sweep(softib):
    """Its discovery ends at the master; oracle: the fabric's own manager stays master."""
    softib("up", "net.yaml", "--priority", "8", "--detach")
    command = ("sm", "run", "--priority", "1", "--log-file", "log")
    words = softib.words("run", "--node", "host-0002", "--", sys.executable, "-m", "softib.cli.main", *command)
    standby = subprocess.Popen(words, env=softib.env, cwd=softib.folder, stderr=subprocess.PIPE, text=True)
    softib.started.append(standby)
    log = softib.folder / "log"
    assert wait_for(lambda: log.exists() and "STANDBY" in log.read_text(), 60)
    standby.terminate()
    said = standby.communicate(timeout=60)[1]
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events[0] == "begin" and events[-1] == "end" and "sweep" not in events
    assert "now STANDBY" in said and "sweep" not in said
    assert softib.status()[0]["sm"]["state"] == "MASTER"


BAD_WORDS = [
    (("mlx9_0",), "umad device mlx9_0 does not exist"),
    (("-g", "zz"), "hexadecimal"),
    (("--engine", "upsidedown"), "no routing engine named"),
    (("--sm-config", "absent"), "absent: No such file"),
    (("--log-file", "no/such/folder"), "there is no folder no/such"),
]


def test_bad_words_are_one_line(softib):
    softib("up", "net.yaml", "--sm", "external", "--detach")
    for words, what in BAD_WORDS:
        said = own(softib, "sm", "run", "--once", *words, code=2)
        assert what in said and len(said.strip().splitlines()) == 1


def test_without_a_device_it_says_what_would_give_one(softib):
    if os.path.isdir("/sys/class/infiniband_mad"):
        pytest.skip("this machine has umad devices")
    assert "softib run --" in softib("sm", "run", "--once", code=2)


@pytest.mark.slow
def test_tables_that_nobody_asked_for_are_told_on_stdout_and_in_the_log(softib):
    """A torus is no fat tree: OpenSM's rule gives it minhop, whose loop is found again here by a walk of the tables that the switches hold."""
    (softib.folder / "torus.yaml").write_text("name: torus\ngeneration: EDR\ntopology: {kind: torus, dims: [4, 4]}\n")
    softib("up", "torus.yaml", "--sm", "external", "--detach")
    for engine in ("ftree", "torus-2QoS"):
        told = own(softib, "sm", "run", "--once", "--engine", engine, "--log-file", f"log-{engine}")
        assert f"tables by minhop, not by {engine} ({engine}: " in told and "a credit loop can form: switch-" in told
        events = [json.loads(line) for line in (softib.folder / f"log-{engine}").read_text().splitlines()]
        (tables,) = (e for e in events if e["event"] == "tables")
        assert (tables["wanted"], tables["engine"], tables["unreachable"]) == (engine, "minhop", 0)
        loop = [step.rstrip("]").split("[") for step in tables["credit_loop"]]
        assert len(loop) > 2 and _waits_in_a_circle(fabric_of(softib), [(name, int(port)) for name, port in loop])
    own(softib, "sm", "run", "--once", "--engine", "ftree", "--strict", code=1)
    told = own(softib, "sm", "run", "--once", "--engine", "updn", "--strict", "--log-file", "log-updn")
    assert "tables by updn: every pair arrives, no credit loop" in told
    said = check(
        "sm-run", json.loads(own(softib, "sm", "run", "--once", "--engine", "minhop", "--json").split("\nsoftib:")[0])
    )
    assert said["tables"]["credit_loop"]


def _waits_in_a_circle(f, loop: list[tuple[str, int]]) -> bool:
    """Is there a LID for each two links of the loop that packets cross one after the other?"""
    row = {int(n): i for i, n in enumerate(f.switch_node)}
    for (name, port), (behind, then) in zip(loop, [*loop[1:], loop[0]], strict=True):
        here, there = find_node(f, name), find_node(f, behind)
        assert int(f.port_node[f.port_peer[f.port(here, port)]]) == there
        lft = f.lft[row[here]], f.lft[row[there]]
        if not ((lft[0] == port) & (lft[1] == then)).any():
            return False
    return True


def test_two_hosts_that_a_cable_joins_have_lids_and_no_tables(softib, stock):
    """Back to back there is nothing to route, so nothing is said about tables; stock smpquery reads both LIDs."""
    (softib.folder / "pair.topo").write_text('Hca 1 "h1"\n[1] "h2"[1]\n\nHca 1 "h2"\n[1] "h1"[1]\n')
    softib("up", "pair.topo", "--sm", "external", "--detach")
    said = own(softib, "sm", "run", "--once", "umad0")
    assert "tables by" not in said and "make no tree" not in said and "2 CAs, 1 cable" in said
    for route, lid in (("0", 1), ("0,1", 2)):
        done = subprocess.run(
            softib.words("run", "--", stock("smpquery"), "-D", "portinfo", route),
            env=softib.env,
            cwd=softib.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert re.search(rf"^Lid:\.*{lid}$", done.stdout, re.M), done
    done = subprocess.run(
        softib.words("route", "pair"), env=softib.env, cwd=softib.folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "no LID" not in done.stdout


def test_a_first_run_on_a_small_subnet_compiles_three_kernels(softib):
    """Its umad messages, which are C calls of machine code. What it computes for six switches runs in Python: compiling that took ten seconds of CPU."""
    (softib.folder / "small.yaml").write_text("generation: EDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n")
    softib("up", "small.yaml", "--sm", "external", "--name", "small", "--detach")
    count = (
        "import sys\nfrom softib.jit.functions import Kernel\ndispatcher = Kernel.dispatcher\nnames = set()\n"
        "def counted(self):\n    names.add(self.python.__name__)\n    return dispatcher(self)\n"
        "Kernel.dispatcher = counted\nfrom softib.cli.main import main\nsys.argv = ['softib', 'sm', 'run', '--once']\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = [m for m in sys.modules if m.startswith('softib.')]\n"
        "    print('compiled', *sorted(names))\n    print('modules', len(loaded), *(m for m in loaded if '.engines.' in m))\n"
    )
    (softib.folder / "count.py").write_text(count)
    softib.env["SOFTIB_CACHE_DIR"] = str(softib.folder / "no-kernels")
    done = subprocess.run(
        softib.words("run", "--fabric", "small", "--", sys.executable, "count.py"),
        env=softib.env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("compiled", "modules")))
    assert done.returncode == 0 and "MASTER" in done.stderr, done
    assert lines["compiled"] == "compose exchange parse"
    assert int(lines["modules"].split()[0]) <= 255, "no more of softib than a manager needs"
    assert not {"lash", "dfsssp", "nue", "lanes"} & {m.rsplit(".", 1)[1] for m in lines["modules"].split()[1:]}
