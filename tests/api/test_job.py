"""An aggregation tree for a job of a running fabric. Oracle: the fat tree's construction (hosts of one leaf meet in their leaf)."""

from __future__ import annotations

import pytest

import softib
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command
from tests.scratch import scratch


@pytest.fixture(scope="module")
def fabric():
    patch = pytest.MonkeyPatch()
    folder = scratch("job-")
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    path = folder / "fabric.yaml"
    path.write_text(
        "generation: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2, aggregation_nodes: true}\nsm: {aggregation: true}\n"
    )
    with softib.up(str(path), name="jobs") as f:
        yield f
    patch.undo()


def test_hosts_of_one_leaf_meet_in_their_leaf(fabric):
    near = fabric.job(["host-0001", "host-0002"])
    assert near.nodes == [near.top] == near.hosts[:1] and near.hosts[0] == near.hosts[1]
    far = fabric.job(["host-0001", "host-0008"])
    assert len(far.nodes) == 3 and far.top not in far.hosts and len(set(far.hosts)) == 2
    assert fabric.job(["host-0001", "host-0008"], streaming=True).tree != far.tree


def test_the_command_line_says_it_too(fabric):
    document = check("sm-job", command("sm", "job", "host-0001", "host-0008", "--json").json())
    said = command("sm", "job", "host-0001", "host-0008")
    assert said.code == 0 and document["top"] in said.out and "host-0008: " in said.out
    assert "host-0008" in one_line(command("sm", "job", "host-008"))
