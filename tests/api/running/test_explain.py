"""Why packets take their path. Oracles: the fat tree's construction, stock ibtracert and saquery,
and the cable that is pulled."""

from __future__ import annotations

import re

import pytest

import softib
from softib.fabric.node_finder import find_node
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command
from tests.scratch import scratch

A, B = "host-0001", "host-0008"


@pytest.fixture(scope="module")
def fabric():
    """Leaves of two hosts each, and two spines: one way up more than a path takes."""
    patch = pytest.MonkeyPatch()
    folder = scratch("explain-")
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    with softib.up(softib.generate("fat-tree", radix=4, levels=2), name="explained") as f:
        yield f
    patch.undo()


def test_hops_engine_and_alternatives_of_a_fat_tree(fabric):
    found = fabric.explain(A, B)
    up, top, down = (h.node for h in found.hops[1:])
    assert found.hops[0].node.startswith(A) and found.hops[-1].to.startswith(B)
    assert up == "leaf-1" and top in ("spine-1", "spine-2") and down == "leaf-4"
    assert found.engine == "ftree" and not found.ended
    assert found.shortest == 3
    assert found.sl == 0 and [h.vl for h in found.hops] == [0, 0, 0, 0]
    (other,) = found.hops[1].alternatives
    assert {other.to.split("[")[0], top} == {"spine-1", "spine-2"}
    assert not found.hops[2].alternatives, "a spine has one cable to a leaf"
    assert all(h.node == n.to for n, h in zip(found.hops, found.hops[1:], strict=False))
    ends = 8 + 6  # LIDs of hosts and of port 0 of switches; two hosts and port 0 are the leaf's own
    assert found.hops[1].lids + other.lids == ends - 3


@pytest.mark.stock
def test_the_path_is_that_of_ibtracert(fabric, stock):
    """It follows the tables by MADs; each line of a hop ends in ``port … lid … "NODE"``."""
    found = fabric.explain(A, B)
    said = fabric.run(A, [stock("ibtracert"), str(found.slid), str(found.dlid)]).stdout
    egress = [int(p) for p in re.findall(r"^\[(\d+)\] ->", said, re.M)]
    assert egress == [h.out_port for h in found.hops]


@pytest.mark.stock
def test_the_sl_is_that_of_saquery(fabric, stock):
    found = fabric.explain(A, B)
    said = fabric.run(A, [stock("saquery"), "-p", "--slid", str(found.slid), "--dlid", str(found.dlid)]).stdout
    assert int(re.search(r"\bsl\.+(0x[0-9a-f]+|\d+)", said, re.I)[1], 0) == found.sl


def test_the_alternative_is_taken_when_the_cable_is_pulled(fabric):
    hop = fabric.explain(A, B).hops[1]
    (other,) = hop.alternatives
    fabric.fault("link-down", f"{hop.node}[{hop.out_port}]")
    fabric.sweep()
    again = fabric.explain(A, B)
    fabric.fault("clear")
    fabric.sweep()
    assert again.hops[1].out_port == other.portnum and not again.hops[1].alternatives
    assert any("No other shortest path" in line for line in again.changes)


def test_the_command_line_says_it_too(fabric):
    document = check("sm-explain", command("sm", "explain", A, B, "--json").json())
    assert [h["node"] for h in document["hops"]][1] == "leaf-1"
    said = command("sm", "explain", A, B)
    assert said.code == 0 and "leaf-1: in" in said.out and "what would change it" in said.out


def test_no_path_is_bad_news(fabric):
    last = fabric.explain(A, B).hops[-1]
    fabric.fault("link-down", f"{last.node}[{last.out_port}]")
    fabric.sweep()
    said = command("sm", "explain", A, B, "--json")
    fabric.fault("clear")
    fabric.sweep()
    assert said.code == 1 and check("sm-explain", said.json())["ended"]


def test_an_unknown_node_names_the_near_ones(fabric):
    with pytest.raises(softib.UnknownName, match="host-0001"):
        fabric.explain("host-001", B)
    assert "host-0008" in one_line(command("sm", "explain", A, "host-008"))


@pytest.mark.slow
def test_hosts_that_share_no_partition_are_told_so(tmp_path, monkeypatch):
    """Oracle: IBA 10.9.3 and the partitions file. A path leads there, and every packet is dropped."""
    folder = scratch("apart-")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    fabric = softib.generate("fat-tree", radix=4, levels=2)
    guid = {
        n: f"{int(g):#x}"
        for n, g in ((h.split()[0], fabric_guid(fabric, h)) for h in ("host-0001", "host-0002", "host-0003"))
    }
    (tmp_path / "partitions.conf").write_text(
        f"Default=0x7fff : SELF=full;\na=0x0012 : {guid['host-0002']}=full;\nb=0x0013 : {guid['host-0003']}=full;\n"
    )
    with softib.up(fabric, name="apart", partitions=str(tmp_path / "partitions.conf")) as f:
        found = f.explain("host-0002", "host-0003")
        assert (
            "limited members of the shared partitions" in found.ended
            and "0x8012" in found.ended
            and "0x8013" in found.ended
        )
        assert not f.explain("host-0001", "host-0002").ended, "a full and a limited member of the default partition"


def fabric_guid(fabric, name: str) -> int:
    from softib.api.fabric import result_of

    f = result_of(fabric).fabric
    return int(f.port_guid[f.port(find_node(f, name), 1)])
