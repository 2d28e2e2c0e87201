"""``softib path``. Oracles: a walk through a dump of the tables, the fat tree's construction,
OpenSM's tables in a file, a partition of limited members."""

from __future__ import annotations

import re

import pytest

import softib
from softib.api.fabric import result_of
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.registry import write
from softib.iba.constants import NodeType
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command

TREE = "topology: {kind: fat-tree, radix: 4, levels: 2}\n"


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(TREE)
    return path


def test_hops_are_those_of_the_dumped_tables(tree, tmp_path):
    """Each switch of the path sends the destination's LID where its block of the dump says."""
    dump = tmp_path / "t.lft"
    command("route", tree, "--engine", "minhop", "--dump", dump)
    document = check("path", command("path", tree, "host-0001", "host-0008", "--engine", "minhop", "--json").json())
    blocks = re.split(r"^Unicast lids", dump.read_text(), flags=re.M)[1:]
    for hop in document["hops"][1:]:
        block = next(b for b in blocks if f"({hop['node']})" in b.split("\n")[0])
        entry = re.search(rf"^0x{document['dlid']:04x} (\d+)", block, re.M)
        assert int(entry[1]) == hop["out_port"]
    assert [h["node"].split("-")[0] for h in document["hops"]] == ["host", "leaf", "spine", "leaf"]
    again = command("path", tree, "host-0001", "host-0008", "--lfts", dump, "--json").json()
    assert again["hops"] == document["hops"] and again["engine"] == "file" and "no SL" in again["sl_source"]


def test_text_names_every_hop_and_the_three_notations_mean_one_port(tree):
    said = {command("path", tree, "host-0001", f"host-0008{port}").out for port in ("", "[1]", ":1", "/1")}
    assert len(said) == 1
    assert re.search(r"leaf-1: in 1, out \d -> spine-\d\[1\], VL 0", said.pop())


def test_a_path_that_does_not_arrive_is_exit_1(tmp_path):
    """Two limited members of a partition: no path record; and a table without the entry."""
    conf, source = tmp_path / "p.conf", tmp_path / "f.yaml"
    conf.write_text("Default=0x7fff: ALL=limited, SELF=full;\n")
    source.write_text(TREE + "sm: {partitions: p.conf}\n")
    said = command("path", source, "host-0002", "host-0008")
    assert said.code == 1 and "both are limited members of the shared partitions" in said.out
    dump = tmp_path / "t.lft"
    command("route", source, "--dump", dump)
    lid = command("path", source, "host-0001", "host-0008", "--json").json()["dlid"]
    dump.write_text(
        re.sub(rf"^0x{lid:04x} .*\n", "", dump.read_text(), count=1, flags=re.M)
    )  # the first table is leaf-1's
    said = command("path", source, "host-0001", "host-0008", "--lfts", dump)
    assert said.code == 1 and f"leaf-1 has no route to LID {lid}" in said.out


@pytest.mark.parametrize(
    "args, words",
    (
        (("host-0001", "host-08"), "did you mean host-0008"),
        (("host-0001", "host-0008[2]"), "has no port 2"),
        (("host-0001", "host-0008", "--engine", "mihop"), "did you mean minhop"),
        (("host-0001", "host-0008", "--engine", "minhop", "--lfts", "/dev/null"), "use one of the two"),
    ),
)
def test_wrong_arguments_are_one_line(tree, args, words):
    assert words in one_line(command("path", tree, *args))


def test_check_judges_the_tables_it_is_given(tmp_path):
    """A ring's tables by minhop have a credit loop, those of updn none: the finding follows the
    engine and the dump, not the default."""
    ring, dump = tmp_path / "ring.yaml", tmp_path / "minhop.lft"
    ring.write_text("topology: {kind: ring, switches: 6}\n")
    codes = lambda found: {f.code for f in found}
    loop = codes(softib.check(ring, engine="minhop")) - codes(softib.check(ring, engine="updn"))
    assert any("loop" in code for code in loop)
    command("route", ring, "--engine", "minhop", "--dump", dump)
    assert loop & codes(softib.check(ring, lfts=dump))
    assert command("check", ring, "--lfts", dump).code == 1
    assert command("check", ring, "--engine", "updn", "--severity", "error").code == 0


def test_why_no_path_is_there_where_a_manager_is(tmp_path):
    """Oracle: the fault planted, and the cables of two subnets that one adapter joins."""
    source = tmp_path / "dead.yaml"
    source.write_text(TREE + "faults:\n  - {kind: dead-switch, switch: leaf-4}\n")
    said = command("path", source, "host-0001", "host-0008")
    assert said.code == 1 and "host-0008[1] has no link\n" in said.out
    said = command("path", source, "host-0007", "host-0001")
    assert said.code == 1 and "host-0007[1] has no link\n" in said.out

    build = FabricBuilder()
    switch = build.nodes(2, NodeType.SWITCH, 8, desc=["sw-a", "sw-b"])
    host = build.nodes(3, NodeType.CA, 2, desc=["gate", "ha", "hb"])
    for node, number, at, portnum in ((0, 1, 0, 1), (0, 2, 1, 1), (1, 1, 0, 2), (2, 1, 1, 2)):
        build.links(switch[at], portnum, host[node], number)
    source = tmp_path / "two.ibnetdiscover"
    write(build.build(), source)
    said = command("path", source, "gate", "hb")
    assert said.code == 1 and "gate[2] has no LID: the subnet manager is on another subnet" in said.out
    said = command("path", source, "hb", "gate")
    assert said.code == 1 and "hb[1] has no LID: the subnet manager is on another subnet" in said.out
    said = command("path", source, "ha", "hb")
    assert said.code == 1 and "ha[1] and hb[1]: they are on two subnets, of sw-b and of sw-a" in said.out


def test_a_leaf_without_uplinks_is_named(tmp_path):
    """Oracle: the four cables that the file removes from leaf-4."""
    source, traffic = tmp_path / "cut.yaml", tmp_path / "traffic.csv"
    source.write_text(
        "generation: NDR\ntopology: {kind: fat-tree, levels: 2, radix: 8}\nfaults:\n"
        + "".join(f"  - {{kind: remove-cable, cable: 'leaf-4[{port}]'}}\n" for port in range(5, 9))
    )
    cut = "leaf-4 has no link to another switch; its ports 5-8 have no link"
    said = command("path", source, "host-0001", "host-0014")
    assert said.code == 1 and f"host-0001[1] and host-0014[1]: {cut}\n" in said.out
    assert "host-0014[1] (no LID); engine ftree\n" in said.out
    said = command("path", source, "host-0013", "host-0014")
    assert said.code == 1 and f"host-0013[1] has no LID: the subnet manager is on another subnet; {cut}\n" in said.out
    for words in (("route", source), ("simulate", source, "shift:64KB")):
        text = " ".join(command(*words).out.split())  # as wide as COLUMNS, where a test runner sets it
        assert f"leaf-4 with 4 host ports {cut.removeprefix('leaf-4 ')}" in text
    traffic.write_text("source,destination,bytes\nhost-0001,host-0014,1000\n")
    said = command("simulate", source, f"matrix:file={traffic}")
    assert said.err.endswith(f"{traffic}:2: host 'host-0014' has no LID, so no packet reaches it\n")
    said = command("simulate", source, "nccl-all-reduce:1MB,hosts=host-0014")
    assert said.err.endswith("host 'host-0014' has no LID, so no packet reaches it\n")


TWO_SWITCHES = """#
Switch	4 "S-0000000000000a01"		# "left" enhanced port 0 lid 1 lmc 0
[1]	"H-0000000000000b01"[1](b02) 		# "alpha HCA-1" lid 2 4xEDR
[3]	"S-0000000000000a02"[3]		# "right" lid 3 4xEDR
[4]	"S-0000000000000a02"[4]		# "right" lid 3 4xEDR

Switch	4 "S-0000000000000a02"		# "right" enhanced port 0 lid 3 lmc 0
[1]	"H-0000000000000c01"[1](c02) 		# "beta HCA-1" lid 4 4xEDR
[3]	"S-0000000000000a01"[3]		# "left" lid 1 4xEDR
[4]	"S-0000000000000a01"[4]		# "left" lid 1 4xEDR

Ca	1 "H-0000000000000b01"		# "alpha HCA-1"
[1](b02) 	"S-0000000000000a01"[1]		# lid 2 lmc 0 "left" lid 1 4xEDR

Ca	1 "H-0000000000000c01"		# "beta HCA-1"
[1](c02) 	"S-0000000000000a02"[1]		# lid 4 lmc 1 "right" lid 3 4xEDR
"""
TABLES = """Unicast lids [0x0-0x5] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000000a01 (left):
0x0001 000
0x0002 001
0x0003 003
0x0004 003
0x0005 004
Unicast lids [0x0-0x5] of switch DR path slid 0; dlid 0; 3 guid 0x0000000000000a02 (right):
0x0001 003
0x0002 003
0x0003 000
0x0004 001
0x0005 001
"""


def test_ends_may_be_lids_as_for_ibtracert(tmp_path):
    """Tables written by hand: the destination's second LID of LMC 1 crosses by the other cable."""
    source, dump = tmp_path / "two.ibnetdiscover", tmp_path / "two.lft"
    source.write_text(TWO_SWITCHES)
    dump.write_text(TABLES)
    for b, dlid, out in (("4", 4, 3), ("5", 5, 4), ("0x5", 5, 4), ("beta", 4, 3)):
        path = check("path", command("path", source, "2", b, "--lfts", dump, "--json").json())
        assert (path["a"], path["slid"], path["dlid"]) == ("alpha HCA-1[1]", 2, dlid)
        assert [(h["node"], h["out_port"]) for h in path["hops"][1:]] == [("left", out), ("right", 1)], b
    back = command("path", source, "5", "1", "--lfts", dump, "--json").json()
    assert (back["slid"], back["dlid"], back["b"]) == (5, 1, "left[0]") and not back["ended"]
    for lid in ("6", "0", "49999"):
        assert f"no port has LID {int(lid)}" in one_line(command("path", source, "2", lid, "--lfts", dump))
    source.write_text(TWO_SWITCHES.replace("beta HCA-1", "2 HCA-1"))
    assert command("path", source, "alpha", "2", "--lfts", dump, "--json").json()["dlid"] == 4, "a name goes first"


def test_a_loop_is_named_by_its_switches_and_printed_once(tree, tmp_path):
    """Two switches that send a LID to each other: the tables of a dump, with two entries changed."""
    dump = tmp_path / "t.lft"
    command("route", tree, "--engine", "minhop", "--dump", dump)
    document = command("path", tree, "host-0001", "host-0008", "--lfts", dump, "--json").json()
    spine = document["hops"][2]
    blocks = re.split(r"(?=^Unicast lids)", dump.read_text(), flags=re.M)
    back = rf"^(0x{document['dlid']:04x}) \d+"
    at = next(i for i, block in enumerate(blocks) if f"({spine['node']})" in block.split("\n")[0])
    blocks[at] = re.sub(back, rf"\1 {spine['in_port']:03}", blocks[at], flags=re.M)
    dump.write_text("".join(blocks))
    said = command("path", tree, "host-0001", "host-0008", "--lfts", dump)
    assert said.code == 1 and f"the packet loops: leaf-1 -> {spine['node']} -> leaf-1" in said.out
    assert said.out.count(", out ") == 2


def test_a_port_guid_names_its_port(tree):
    fabric = softib.load(tree)
    routing = softib.route(fabric)
    plain = routing.path("host-0001", "host-0008")
    f = result_of(fabric).fabric
    port = int(f.port(int(f.node_names().index("host-0008")), 1))
    assert int(f.port_guid[port]) not in f.node_guid.tolist()
    assert routing.path("host-0001", f"{int(f.port_guid[port]):#018x}").hops == plain.hops


def test_with_an_lmc_the_path_of_each_lid_is_that_of_the_dumped_tables(tmp_path):
    """The dump has an entry for each LID. Counts are of all LIDs: each switch has two, each host has two."""
    source, dump = tmp_path / "f.yaml", tmp_path / "t.lft"
    source.write_text("generation: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2, hosts: 16}\nsm: {lmc: 1}\n")
    command("route", source, "--engine", "minhop", "--dump", dump)
    document = check("path", command("path", source, "host-0001", "host-0016", "--engine", "minhop", "--json").json())
    hop, block = next(
        (h, b)
        for h in document["hops"]
        for b in re.split(r"^Unicast lids", dump.read_text(), flags=re.M)[1:]
        if h["node"] == "leaf-1" and "(leaf-1)" in b.split("\n")[0]
    )
    entries = {int(lid, 16): int(port) for lid, port in re.findall(r"^0x([0-9a-f]{4}) (\d+)", block, re.M)}
    dlid, other = document["dlid"], document["dlid"] + 1
    (said,) = [x for x in document["changes"] if "LMC" in x]
    assert f"B has LMC 1, LIDs {dlid} to {other}: LID {other}" in said
    assert entries[other] != entries[dlid], "the case: the LIDs differ at the first switch"
    assert f"leaves leaf-1 through port {entries[other]} instead of {entries[dlid]}." in said
    counted = {hop["out_port"]: hop["lids"], **{a["portnum"]: a["lids"] for a in hop["alternatives"]}}
    assert counted == {port: list(entries.values()).count(port) for port in counted}
    back = command("path", source, "host-0001", str(other), "--engine", "minhop", "--json").json()
    assert f"LID {dlid} leaves leaf-1 through port {entries[dlid]}" in " ".join(back["changes"])
