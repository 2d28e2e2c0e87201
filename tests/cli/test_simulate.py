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


@pytest.mark.parametrize("workload", ["permutaton:1MB", "shift:0", "incast:1MB,senders=99", "none.yaml"])
def test_a_wrong_question_ends_with_2_and_one_line(tree, workload):
    done = run("simulate", tree, workload)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1


def test_a_run_that_cannot_complete_ends_with_1(tree, monkeypatch):
    """What a deadlock or a lost message is for scripts: here a layer that completes nothing."""
    from softib.cli.simulate import command
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
    done = run("simulate", tree, "shift:64KB", "--html", str(tmp_path / "no" / "where.html"))
    assert done.code == 2 and done.err.count("\n") == 1
