"""softib ci: what stock programs, tshark and an XML parser say of its runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from softib.api.running.ci_plan import PlannedFault, planned_fault, read_plan
from softib.errors import InputError
from tests.preload.verbs.applications import verbs_library

ROOT = Path(__file__).resolve().parents[2]


def ci(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "softib", "ci", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.stock
def test_a_run_over_verbs_with_a_fault_passes(tmp_path, stock):
    """libibverbs' own ping-pong between two nodes while a link of their path goes down: the file of examples/ci."""
    verbs_library()
    stock("ibv_rc_pingpong")
    done = ci(tmp_path, "--json", "--file", str(ROOT / "examples/ci/rdma.yaml"))
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["ok"] and [c["exit_code"] for c in run["commands"]] == [0, 0]
    assert run["verbs_bytes"] > 2 * 2 * 600_000 * 4096, "each message of 4 KiB leaves one port and enters another"
    assert [f["kind"] for f in run["faults"]] == ["link-down"] and run["faults"][0]["where"].startswith("leaf-1[")
    assert "600000 iters" in done.stderr, "the commands' output is not on stdout beside JSON"
    suite = ElementTree.parse(tmp_path / "softib-ci/junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    assert [p.name for p in (tmp_path / "softib-ci").iterdir()] == ["junit.xml"]


@pytest.mark.stock
def test_a_run_without_verbs_is_3_and_leaves_what_explains_it(tmp_path, stock):
    verbs_library()
    tshark = stock("tshark")
    done = ci(tmp_path, "--", "echo", "all 12 tests passed", NCCL_IB_DISABLE="1")
    assert done.returncode == 3 and "all 12 tests passed" in done.stdout, done.stderr
    assert "verbs moved no data: NCCL_IB_DISABLE=1 keeps it from them" in done.stderr
    folder = tmp_path / "softib-ci"
    assert sorted(p.name for p in folder.iterdir()) == [
        "counters.csv",
        "fabric.log",
        "host-0001.log",
        "junit.xml",
        "mads.pcap",
    ]
    failures = ElementTree.parse(folder / "junit.xml").getroot().findall(".//failure")
    assert [f.get("type") for f in failures] == ["no RDMA"]
    packets = subprocess.run(
        [tshark, "-r", folder / "mads.pcap", "-Y", "infiniband.mad"], capture_output=True, text=True
    )
    assert len(packets.stdout.splitlines()) > 100
    rows = (folder / "counters.csv").read_text().splitlines()
    assert "port_xmit_data" in rows[0] and len(rows) == 1 + 32 + 6, "16 cables have 32 ends, six switches a port 0"
    assert (folder / "host-0001.log").read_text() == "all 12 tests passed\n"


@pytest.mark.slow
def test_faults_without_a_place_are_of_one_cable(tmp_path):
    """Routes change with the first fault, and the second one repairs it. The last one comes too late: the run fails,
    also in JUnit, beside records of this run alone."""
    verbs_library()
    folder = tmp_path / "softib-ci"
    folder.mkdir()
    for name in ("junit.xml", "counters.csv", "host-0003.log"):
        (folder / name).write_text("earlier")
    faults = ("link-down@500ms", "link-up@2s", "link-down@1m")
    options = [word for fault in faults for word in ("--fault", fault)]
    done = ci(tmp_path, "--json", "--node", "host-0001,host-0008", *options, "--", "sleep", "4")
    run = json.loads(done.stdout)
    down, up = run["faults"]
    assert (done.returncode, down["where"]) == (1, up["where"])
    assert not (folder / "host-0003.log").exists() and (folder / "counters.csv").read_text() != "earlier"
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall(".//skipped"))) == ("4", "1", 1)


@pytest.mark.slow
def test_a_cancelled_run_leaves_its_records(tmp_path):
    """SIGTERM, as a CI service sends it: the output until then, counters, log and JUnit are there."""
    verbs_library()
    run = subprocess.Popen(
        [sys.executable, "-m", "softib", "ci", "--", "sh", "-c", "echo began; exec sleep 300"],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout.readline() == "began\n"
    run.terminate()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 128 + signal.SIGTERM, said
    assert "failed: interrupted" in said
    folder = tmp_path / "softib-ci"
    assert (folder / "host-0001.log").read_text() == "began\n"
    assert {p.name for p in folder.iterdir()} == {
        "junit.xml",
        "mads.pcap",
        "counters.csv",
        "fabric.log",
        "host-0001.log",
    }
    messages = [f.get("message") for f in ElementTree.parse(folder / "junit.xml").getroot().findall(".//failure")]
    assert messages == ["exit code 143", "interrupted by Ctrl-C or a signal"]


@pytest.mark.slow
@pytest.mark.stock
def test_ip_over_infiniband_passes_only_where_it_is_meant(tmp_path, stock):
    verbs_library()
    stock("ping")
    peer = "address=$(getent hosts host-0008 | cut -d' ' -f1); exec ping -c 3 -s 1400 ${address:-10.64.0.38}"
    (tmp_path / "ci.yaml").write_text(json.dumps({"nodes": {"host-0001": peer, "host-0008": "sleep 8"}}))
    done = ci(tmp_path, "--json", "--file", "ci.yaml", "--net", "--allow-ip")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ip_bytes"] > 2 * 2 * 3 * 1400, "a request and an answer, at both ports"
    done = ci(tmp_path, "--file", "ci.yaml", "--net")
    assert done.returncode == 3 and "use --allow-ip if" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    (
        ("./a --n 3 'x y'", ["./a", "--n", "3", "x y"]),
        ("cd b && ./a", ["sh", "-c", "cd b && ./a"]),
        ("./a | tee log", ["sh", "-c", "./a | tee log"]),
        ("N=3 ./a", ["sh", "-c", "N=3 ./a"]),
        (["./a", "$HOME", "&&"], ["./a", "$HOME", "&&"]),
    ),
)
def test_a_text_is_a_line_for_the_shell_and_a_list_is_not(tmp_path, text, words):
    (tmp_path / "ci.yaml").write_text(json.dumps({"nodes": {"a": text}}))
    assert read_plan(tmp_path / "ci.yaml").commands == {"a": words}


@pytest.mark.parametrize(
    ("text", "fault"),
    (
        ("link-down@2s", PlannedFault("link-down", "", {}, 2.0)),
        ("link-down leaf-1[3]@500ms", PlannedFault("link-down", "leaf-1[3]", {}, 0.5)),
        ("ber leaf-1[3] 1e-6@1.5", PlannedFault("ber", "leaf-1[3]", {"ber": 1e-6}, 1.5)),
        ("hot-module leaf-1[3] 81@1s", PlannedFault("hot-module", "leaf-1[3]", {"celsius": 81.0}, 1.0)),
        ("switch-down spine-1@1m", PlannedFault("switch-down", "spine-1", {}, 60.0)),
    ),
)
def test_faults_have_a_time(text, fault):
    assert planned_fault(text) == fault


@pytest.mark.parametrize(
    "text", ("link-down", "@2s", "link-down@soon", "ber leaf-1[3]@1s", "link-down leaf-1[3] 4@1s", "a b c d@1s")
)
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match="fault '"):
        planned_fault(text)


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("fabric: x.yaml\n", "nodes: is missing"),
        ("nodes: {host-0001: 7}\n", ":1: host-0001: a command must be"),
        ("nodes: {a: x}\nfalts: []\n", ":2: unknown key 'falts'"),
        ("nodes: {a: x}\nfaults: link-down@2s\n", "a list of strings"),
        ("nodes: {a: 'x \"y'}\n", ":1: a: a command must be"),
    ),
)
def test_a_file_that_is_wrong_names_the_line(tmp_path, text, message):
    (tmp_path / "ci.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_plan(tmp_path / "ci.yaml")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_usage_is_one_line(tmp_path):
    (tmp_path / "y.yaml").touch()
    for words, line in (
        ((), "add a program (softib ci -- CMD ...) or --file FILE"),
        (("--file", "y.yaml", "--", "true"), "both --file and a program (true) are given; leave out one of them"),
        (("--node", "host-0001,host-0001", "--", "true"), "node host-0001 is named twice"),
        (("--allow-ip", "--", "true"), "--allow-ip needs --net"),
        (("--file", "y.yaml", "--node", "a"), "--file names the nodes; leave out --node"),
        (("--file", "x.yaml"), "x.yaml: No such file or directory"),
        (("--fault", "link-down", "--", "true"), "is not KIND[ PLACE[ RATE]]@TIME"),
        (("--source", "none.yaml", "--", "true"), "none.yaml: no such file"),
        (("--fault", "link-dwn@2s", "--", "true"), "no fault named 'link-dwn'; did you mean link-down"),
        (("--fault", "ber leaf-1[3] 7@2s", "--", "true"), "fault ber: RATE (ber): 7.0 is not"),
        (("--fault", "switch-down@2s", "--", "true"), "needs a switch, for example leaf-3"),
        (("--fault", "link-down leaf-9[3]@2s", "--", "true"), "no node named 'leaf-9'"),
        (("--node", "host-1", "--", "true"), "no node named 'host-1'"),
        (("--artifacts", "/dev/null/x", "--", "true"), "/dev/null/x: cannot write there"),
        (("--", "no-such-program"), "no-such-program: no such program"),
    ):
        done = ci(tmp_path, *words)
        assert done.returncode == 2 and line in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
