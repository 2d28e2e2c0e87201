"""``softib simulate``: exit codes, output, and what goes where."""

from __future__ import annotations

import json

import pytest

from tests.cli.run import softib as run

TREE = "topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 32}\n"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree.yaml").write_text(TREE)
    return str(tmp_path / "tree.yaml")


def test_what_it_prints(tree, tmp_path):
    done = run(
        "simulate", tree, "incast:1MB,senders=8", "--what-if", "engine=minhop", "--html", str(tmp_path / "p.html")
    )
    assert done.code == 0, done.err
    assert (
        "8 messages completed" in done.out and "8 hosts send to one" in done.out and "what if engine=minhop" in done.out
    )
    assert (tmp_path / "p.html").stat().st_size > 5000


def test_two_networks_are_shown_side_by_side(tree):
    done = run("simulate", tree, "incast:256KB,senders=8", "--layer", "packet", "--what-if", "network=roce,gbps=100")
    assert done.code == 0, done.err
    assert "RoCEv2 over Ethernet, hosts at 100 Gb/s" in done.out and "frames dropped" in done.out
    assert [line.split() for line in done.out.splitlines() if line.strip().startswith("infiniband")] == [
        ["infiniband", "network=roce,gbps=100"]
    ]


def test_a_named_network_that_was_not_run_is_invalid_input(tree):
    """RoCE has packets alone (the help of ``--network``)."""
    assert run("compare", tree, "incast:64KB,senders=4", "--network", "roce", "--layer", "fluid").code == 2


def test_json_is_alone_on_stdout(tree):
    done = run("simulate", tree, "shift:64KB", "--json", "--layer", "static")
    found = json.loads(done.out)
    assert (
        done.code == 0
        and found["layer"] == "static"
        and found["good"]
        and found["wall_s"] > 0
        and found["simulated_us"] > 0
    )


def test_a_trace_a_capture_and_counters(tree, tmp_path):
    """One run gives all of them; JSON and text say the same of the traced message."""
    ask = ("simulate", tree, "incast:100KB,senders=5", "--layer", "packet", "--trace", "2", "--counters", "leaf-1:1")
    done = run(*ask, "--pcap", str(tmp_path / "run.pcapng"), "--port", "leaf-1:1", "--port", "host-0001[1]")
    assert done.code == 0, done.err
    assert "message 2: " in done.out and "hop by hop" in done.out and "frames written to" in done.err
    assert "# Port counters: leaf-1:1" in done.out and "PortXmitData:...................." in done.out
    found = json.loads(run(*ask, "--json").out)
    assert f"PortXmitData:....................{found['counters']['leaf-1:1']['port_xmit_data']}" in done.out
    assert found["trace"]["message"] == 2 and (tmp_path / "run.pcapng").stat().st_size > 5 * 100_000


@pytest.mark.parametrize(
    "more",
    [
        ("--pcap", "x.pcapng"),
        ("--port", "leaf-1:1"),
        ("--trace", "0"),
        ("--sample", "soon"),
        ("--counters", "leaf-77:1"),
        ("--layer", "packet", "--pcap", "/nowhere/x", "--port", "leaf-1:1"),
        ("--layer", "packet", "--pcap", "x", "--port", "leaf-1:0"),
    ],
)
def test_a_wrong_wish_ends_with_2(tree, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("simulate", tree, "shift:64KB", *more)
    assert done.code == 2 and "Traceback" not in done.err and done.err.strip()
    assert not done.out  # nothing ran that could be lost


@pytest.mark.parametrize("workload", ["permutaton:1MB", "shift:0", "incast:1MB,senders=99", "none.yaml"])
def test_a_wrong_question_ends_with_2_and_one_line(tree, workload):
    done = run("simulate", tree, workload)
    assert done.code == 2 and done.out == "" and len(done.complaints) == 1


def test_a_run_that_cannot_complete_ends_with_1(tree, monkeypatch):
    """What a deadlock or a lost message is for scripts: here a layer that completes nothing."""
    from softib.cli.predict.simulate import command
    from softib.sim import fluid
    from softib.sim.outcome import NEVER

    real = fluid.run

    def lossy(*args, **options):
        outcome = real(*args, **options)
        outcome.completed_ps[0] = outcome.arrived_ps[0] = NEVER
        return outcome

    monkeypatch.setattr(fluid, "run", lossy)
    assert command.main(args=[tree, "shift:64KB", "--json"], standalone_mode=False) == 1


def test_unreadable_targets_are_one_line(tree, tmp_path):
    for verb in ("simulate", "compare"):
        done = run(verb, tree, "shift:64KB", "--html", str(tmp_path / "no" / "where.html"))
        assert done.code == 2 and len(done.complaints) == 1 and "there is no folder" in done.err


def test_a_report_makes_one_folder_and_no_two(tree, tmp_path):
    """A page has a folder of its own; two that are missing are rather a misspelt path."""
    done = run("report", tree, "--html", str(tmp_path / "no" / "where" / "page.html"))
    assert done.code == 2 and not (tmp_path / "no").exists() and done.out == ""


def test_networks_are_compared(tree, tmp_path):
    done = run(
        "compare", tree, "shift:64KB", "--network", "XDR", "--network", "roce", "--html", str(tmp_path / "c.html")
    )
    assert done.code == 0, done.err
    rows = [line.split()[:2] for line in done.out.splitlines() if line.startswith(("NDR", "XDR", "RoCE"))]
    assert (
        rows[:3] == [["NDR", "400"], ["XDR", "800"], ["RoCE", "400"]]
        and "no" in done.out
        and (tmp_path / "c.html").exists()
    )
    found = run("compare", tree, "shift:64KB", "--network", "xdr", "--layer", "fluid", "--json").json()
    assert [n["network"] for n in found["networks"]] == ["NDR", "XDR"] and found["as_it_is"] == "NDR"


@pytest.mark.parametrize(
    "how",
    [
        ("shift:0",),
        ("shift:1MB", "--network", "ethernet"),
        ("shift:1MB", "--network", "roce,gbps=fast"),
        ("shift:1MB", "--html", "/nowhere/x"),
    ],
)
def test_a_comparison_that_is_none_ends_with_2_and_one_line(tree, how):
    done = run("compare", tree, *how, *(() if "--network" in how else ("--network", "XDR", "--layer", "fluid")))
    assert done.code == 2 and done.out == "" and len(done.complaints) == 1


def test_attributes_of_queue_pairs(tree):
    """ibv_modify_qp's names. 20 SENDs with one receive at a time: 19 RNR NAKs, each of the timer's
    code (IBA table 45: 13 is 0.96 ms); who bears none loses them. A host whose link is down: the
    first packets of 64 messages and each of their retries are discarded."""
    sends = (
        "simulate",
        tree,
        "bandwidth:4KB,receives=1,repost=100us,opcode=send,iterations=20",
        "--layer",
        "packet",
        "--json",
    )
    took = json.loads(run(*sends, "--min-rnr-timer", "13").out)["simulated_us"]
    assert 19 * 960 < took < 19 * 960 + 100
    none = run(*sends, "--rnr-retry", "0")
    assert none.code == 1 and json.loads(none.out)["good"] is False
    down = (
        "simulate",
        tree,
        "bandwidth:4KB",
        "--layer",
        "packet",
        "--fault",
        "1us link-down host-0001[1]",
        "--sm",
        "off",
        "--json",
    )
    again = [json.loads(run(*down, "--timeout", "8", "--retry-cnt", str(n)).out)["retransmission"] for n in (0, 3)]
    first = again[0]["packets_discarded"]
    assert first > 0 == again[0]["packets_resent"]
    assert again[1]["packets_resent"] == 3 * first and again[1]["packets_discarded"] == 4 * first


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--timeout", "10"), "needs the packet layer, the only one with timeouts; add --layer packet"),
        (("--layer", "packet", "--timeout", "3", "--network", "tcp"), "tcp, which has no queue pairs"),
        (("--layer", "packet", "--timeout", "32"), "use 1 to 31"),
        (("--layer", "static", "--rnr-retry", "3"), "needs the packet layer"),
    ],
)
def test_attributes_that_cannot_be_are_one_line(tree, given, why):
    done = run("simulate", tree, "incast:4KB", *given)
    assert done.code == 2 and why in done.err and len(done.err.strip().splitlines()) == 1
