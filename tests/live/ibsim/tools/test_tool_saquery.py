"""Every record and option of saquery, under either preload library, answered by our manager: compared with the fabric's arrays.

The stock library delivers one MAD of an answer, so there the first record is right and empty ones follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo, SwitchInfo
from tests.live.ibsim.tools.tool_answers import both, has, lacks, named
from tests.live.ibsim.tools.tool_lab import LIBRARIES, Lab, in_turn

pytestmark = pytest.mark.stock

OWN = ("own",)
"""Rows whose answer is more than one record, or is sought among many."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    one = Lab(generate("fat-tree", radix=4, levels=3, generation="HDR"), tmp_path_factory.mktemp("saquery"))
    yield one
    one.stop()


def places(lab: Lab) -> dict[str, object]:
    f = lab.f
    leaf, host = named(f, "leaf-2"), named(f, "host-0009")
    words = lambda port: [f"{int(f.port_guid[port]) >> s & 0xFFFF:x}" for s in (48, 32, 16, 0)]
    gid = lambda port: "fe80::" + ":".join(words(port))
    first = named(f, "host-0001")
    up = leaf + 3
    return {
        "leaf": lab.lid(leaf),
        "host": lab.lid(host),
        "first": lab.lid(first),
        "hostguid": f"{int(f.port_guid[host]):#x}",
        "hostguid16": f"0x{int(f.port_guid[host]):016x}",
        "hostgid": gid(host),
        "firstgid": gid(first),
        "leafguid16": f"0x{int(f.node_guid[f.port_node[leaf]]):016x}",
        "lid": lab.lid(int(f.port_peer[up])),
        "portnum": int(f.port_num[f.port_peer[up]]),
        "nodes": f.sizes.nodes,
        "top": f"0x{int(SwitchInfo.linear_fdb_top.get(f.switch_info[f.switch_of_node[f.port_node[leaf]]])):X}",
        "cap": f"0x{int(PortInfo.cap_mask.get(f.port_info[first])):X}",
        "mtu": 0x80 | 5,
        "out": int(f.lft[f.switch_of_node[f.port_node[leaf]], lab.lid(host)]),
    }


def spelled(lab: Lab, text: str) -> str:
    for name, what in places(lab).items():
        text = text.replace("{" + name + "}", str(what))
    return text


@dataclass(frozen=True)
class Row:
    """``options`` of saquery, what must be in the answer (places in braces), exit code, under which libraries."""

    options: str
    wanted: tuple[str, ...] = ()
    libraries: tuple[str, ...] = LIBRARIES
    code: int = 0
    not_there: tuple[str, ...] = ()
    records: tuple[str, Callable[[Lab], int]] | None = None

    @property
    def words(self) -> str:
        return "saquery " + self.options


path = (r"dgid\.+{hostgid}$", r"sgid\.+{firstgid}$", r"dlid\.+{host}$", r"slid\.+{first}$")
leaf_node = (r"lid\.+{leaf}$", r"node_guid\.+{leafguid16}$", r"NodeDescription\.+leaf-2$")
group = (r"MGID\.+ff12:401b:ffff::ffff:ffff$", r"(?i)mlid\.+0xc000$")
to_host = "--sgid {firstgid} --dgid {hostgid}"
ROWS = (
    Row("", (r"NodeRecord dump:",), records=("NodeRecord", lambda lab: lab.f.sizes.nodes)),
    Row("-N", (r"NodeRecord dump:",), records=("NodeRecord", lambda lab: lab.f.sizes.nodes)),
    Row("NR {leaf}", leaf_node),
    Row("NodeRecord {leaf}", leaf_node),
    Row("NR {leaf} --node-name-map map", (r"NodeDescription\.+leaf-2$",)),
    Row("CPI", (r"Base version\.+1$", r"Class version\.+2$", r"Response time value\.+0x\w+$")),
    Row("-c", (r"Base version\.+1$", r"Class version\.+2$")),
    Row(
        "PIR {leaf}/3", (r"EndPortLid\.+{leaf}$", r"PortNum\.+3$", r"LinkState:\.+Active$", r"Mkey:\.+<not displayed>")
    ),
    Row("-K PIR {leaf}/3", (r"Mkey:\.+0x0000000000000000",)),
    Row("PIR {first}/1", (r"EndPortLid\.+{first}$", r"PhysLinkState:\.+LinkUp$")),
    Row("SL2VL {leaf}/1/2", (r"InPort\.+1$", r"OutPort\.+2$", r"VL: 0\| 1\| 2\| 3\| 4\| 5\| 6\| 7\| 0\|")),
    Row("PKTR {first}/1/0", code=5),
    Row("--smkey 1 PKTR {first}/1/0", (r"LID\.+{first}$", r"Port\.+1$", r"Block\.+0$", "0xffff")),
    Row("--smkey 1 PKTR {first}/0/1", (r"Port\.+1$", r"Block\.+1$")),  # whatever port is asked of a CA (as OpenSM)
    Row("--smkey 1 PKTR {leaf}/2/0", (r"LID\.+{leaf}$", r"Port\.+2$", r"Block\.+0$")),
    Row("VLAR {first}/1/1", (r"LID\.+{first}$", r"Port\.+1$", r"Block\.+1$")),
    Row("SL2VL {first}/1/1", (r"LID\.+{first}$", r"InPort\.+0$", r"OutPort\.+0$", r"VL: 0\| 1\| 2\| 3\|")),
    Row("VLAR {leaf}/1/1", (r"Port\.+1$", r"Block\.+1$")),
    Row("IIR"),
    Row("-I"),
    Row("SR"),
    Row("-S"),
    Row("LR {leaf}/3", (r"FromLID\.+{leaf}$", r"FromPort\.+3$", r"ToPort\.+{portnum}$", r"ToLID\.+{lid}$")),
    Row("LR {leaf}/3 {lid}/{portnum}", (r"ToPort\.+{portnum}$", r"ToLID\.+{lid}$")),
    Row("-x {leaf}", (r"FromLID\.+{leaf}$",), records=("LinkRecord", lambda lab: 4)),
    Row("PR", (r"PathRecord dump:",), records=("PathRecord", lambda lab: len(lab.f.end_ports()) ** 2)),
    Row("-p", (r"PathRecord dump:",), records=("PathRecord", lambda lab: len(lab.f.end_ports()) ** 2)),
    Row("-p --slid {first} --dlid {host}", path),
    Row(f"-p {to_host}", path),
    Row("--src-to-dst {first}:{host}", path),
    Row("--src-to-dst host-0001:host-0009", path, OWN),
    Row("--sgid-to-dgid {firstgid}-{hostgid}", path),
    Row(f"-p {to_host} -n 1 -r 1", (*path, r"num_path_revers\.+0x80$")),
    Row(f"-p {to_host} --pkey 0xffff", (*path, r"pkey\.+0xFFFF$")),
    Row(f"-p {to_host} --pkey 0x8123", not_there=("PathRecord",)),
    Row(f"-p {to_host} -Q 0", path),
    Row(f"-p {to_host} --sl 0", (*path, r"sl\.+0x0$")),
    Row(f"-p {to_host} --sl 3", (*path, r"sl\.+0x3$")),
    Row(f"-p {to_host} -M 0x85", (*path, r"mtu\.+0x85$")),
    Row(f"-p {to_host} -M 0x45", (*path, r"mtu\.+0x84$")),
    Row(f"-p {to_host} -M 0x05", not_there=("PathRecord",)),
    Row(f"-p {to_host} -R 0x90", (*path, r"rate\.+0x90$")),
    Row(f"-p {to_host} -R 0x11", not_there=("PathRecord",)),
    Row(f"-p {to_host} --pkt_lifetime 0x53", (*path, r"pkt_life\.+0x9[0-2]$")),
    Row(f"-p {to_host} -T 0", path),
    Row(f"-p {to_host} -F 0", path),
    Row(f"-p {to_host} -H 0", path),
    Row(f"-p {to_host} --service_id 5", path),
    Row("MCMR", group),
    Row("-g", group),
    Row("-m", group),
    Row("-m 0xC000", (r"PortGid\.+::",)),
    Row("-g --mlid 0xc000", group),
    Row("MCMR --mlid 0xc00a", not_there=("MCMember",)),
    Row("-g --mgid ff12:401b:ffff::ffff:ffff", group),
    Row("MCMR --mlid 0xc000 -q 0xb1b --pkey 0xffff --sl 0 --scope 2", (*group, r"qkey\.+0xb1b$")),
    Row("MCMR -M 0x84 -R 0x83 -T 0 -F 0 -H 0", group),
    Row("MCMR -q 0x1234", not_there=("ff12",)),
    Row("MCMR --gid {firstgid} -J 1 -X 0", not_there=("ff12",)),
    Row("LFTR {leaf}/0", (r"LID\.+{leaf}$", r"^\t\t{host}\t{out}$")),
    Row("MFTR 0xc000/0/0"),
    Row("GIR {first}/0", (r"LID\.+{first}$", r"GUID 0\.+0x0250f1b000001401$")),
    Row("SWIR {leaf}", (r"LID\.+{leaf}$", r"LinearFDBTop\.+{top}$")),
    Row("SMIR", (r"LID\.+{first}$", r"SMState\.+3$")),
    Row("SMIR {first}", (r"GUID\.+0x0250f1b000001401$",)),
    Row("-s", (r"IsSM ports", r"EndPortLid\.+{first}$", r"capability_mask\.+{cap}$")),
    Row("-L host-0009", (r"^{host}$",), OWN),
    Row("-l host-0009", (r"^{host}$",), OWN),
    Row("-G host-0009", (r"^{hostguid16}$",), OWN),
    Row("-O {leaf}", (r"^leaf-2$",), OWN),
    Row("-U {hostguid}", (r"^host-0009$",), OWN),
    Row("-D", (r'^ +{host}  "host-0009"$',), OWN),
)


@pytest.mark.parametrize(("row", "library"), in_turn(ROWS, lambda row: row.libraries))
def test_an_option_answers_with_right_records(row, library, lab):
    (lab.folder / "map").write_text("")
    code, said = lab.tool(library, "saquery", *spelled(lab, row.options).split())
    assert code == row.code, said[-2000:]
    patterns = [spelled(lab, p) for p in row.wanted]
    both(has(*patterns), lacks(*row.not_there))(lab, said) if library == "own" or not row.not_there else None
    if row.records is not None and library == "own":
        kind, count = row.records
        assert len(re.findall(rf"^{kind} dump:", said, re.M)) == count(lab)
