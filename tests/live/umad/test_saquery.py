"""``saquery`` lists every record of every kind, whoever is the subnet administrator; the fabric says what must be there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softib.iba.smp import PortInfo
from softib.live.shared_fabric import SharedFabric
from tests.live.serving import run, wait_for
from tests.live.umad.serving import PROGRAM

pytestmark = pytest.mark.stock

NETS = {
    "small": "{kind: rail-optimized, nodes: 6, rails: 4, radix: 8}",
    "big": "{kind: fat-tree, radix: 22, levels: 3}",  # 2,662 hosts, 605 switches
}
PATIENT = ("-t", "60000")
"""Milliseconds. OpenSM compares each port with each to find all links: of the big fabric that takes it seconds."""


class Attached:
    """A running fabric ``f`` with a subnet administrator, and a program on a node of it."""

    def __init__(self, softib, kind: str, sm: str, stock):
        self.softib, self.stock, self.folder = softib, stock, softib.folder
        (self.folder / "net.yaml").write_text(f"generation: HDR\ntopology: {NETS[kind]}\n")
        # minhop as stock OpenSM's default: with ftree no path joins two root switches (opensm(8), --connect_roots).
        engine = ("--engine", "minhop") if sm == "internal" else ()
        softib.start("net.yaml", "--name", "net", "--sm", sm, *engine)
        self.f = SharedFabric.open(Path(softib.status("net")[0]["shared_fabric"])).fabric
        if sm == "external":
            self.opensm()

    def opensm(self) -> None:
        log = self.folder / "opensm.log"
        env = {**self.softib.env, "OSM_CACHE_DIR": str(self.folder), "OSM_TMP_DIR": str(self.folder)}
        words = self.softib.words("run", "--", self.stock("opensm"), "-f", str(log), "-d2")
        self.softib.started.append(subprocess.Popen(words, env=env, cwd=self.folder, stdout=subprocess.DEVNULL))
        assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))

    def ask(self, *words: str) -> str:
        code, out = run(
            self.folder, self.softib.env, *self.softib.words("run", "--", self.stock("saquery"), *PATIENT, *words)
        )
        assert code == 0, (words, out[-500:])
        return out


def fields(text: str, *names: str) -> list[tuple[int, ...]]:
    """Of each record: the numbers of these lines."""
    columns = [re.findall(rf"^\t\t{re.escape(n)}\.+(0x[0-9A-Fa-f]+|\d+)", text, re.MULTILINE) for n in names]
    return [tuple(int(x, 0) for x in row) for row in zip(*columns, strict=True)]


def records(text: str, kind: str) -> int:
    return len(re.findall(rf"^{kind} dump:", text, re.MULTILINE))


def wanted(f, kind: str) -> list[tuple[int, ...]]:
    """What the fabric says that the records of ``kind`` must be."""
    lid = lambda port: int(PortInfo.lid.get(f.port_info[port]))
    ports = np.flatnonzero(f.port_node >= 0).tolist()
    owner = lambda p: int(f.node_base[f.port_node[p]]) if f.is_switch[f.port_node[p]] else p
    known = [p for p in ports if f.is_switch[f.port_node[p]] or (f.port_num[p] and lid(p))]
    if kind == "PIR":
        return [(lid(owner(p)), int(f.port_num[p])) for p in known]
    if kind == "NR":
        return [(lid(p), int(f.node_guid[f.port_node[p]])) for p in f.end_ports().tolist() if lid(p)]
    if kind == "LR":
        to = lambda p: int(f.port_peer[p])
        cabled = [p for p in known if f.linked[p]]
        return [(lid(owner(p)), int(f.port_num[p]), lid(owner(to(p))), int(f.port_num[to(p)])) for p in cabled]
    switches = [lid(int(f.node_base[n])) for n in f.switch_node.tolist()]
    if kind == "SWIR":
        return [(x,) for x in switches]
    assert kind == "LFTR"
    blocks = int(np.max(f.lid)) // 64 + 1
    return [(x, b) for x in switches for b in range(blocks)]


NAMES = {
    "NR": ("NodeRecord", ("lid", "node_guid")),
    "PIR": ("PortInfoRecord", ("EndPortLid", "PortNum")),
    "LR": ("LinkRecord", ("FromLID", "FromPort", "ToLID", "ToPort")),
    "SWIR": ("SwitchInfoRecord", ("LID",)),
    "LFTR": ("LFT Record", ("LID", "Block")),
}


@pytest.mark.parametrize("sm", ["internal", pytest.param("external", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["small", pytest.param("big", marks=pytest.mark.slow)])
def test_every_record_of_every_kind(kind, sm, softib, stock):
    a = Attached(softib, kind, sm, stock)
    f = a.f
    hosts = f.sizes.nodes - f.sizes.switches
    said = {query: a.ask(query) for query in NAMES}
    for query, (_, names) in NAMES.items():
        assert sorted(fields(said[query], *names)) == sorted(wanted(f, query)), query
    # Options that are the names' short forms.
    assert a.ask("-N") == a.ask() and sorted(a.ask("-x").splitlines()) == sorted(said["LR"].splitlines())
    assert len(re.findall(r'^\s+\d+\s+"', a.ask("-D"), re.MULTILINE)) == hosts
    # Tables of ports: each port and block once.
    for query, title in (("SL2VL", "SL2VLTableRecord"), ("VLAR", "VLArbTableRecord"), ("GIR", "GUIDInfo Record")):
        out = a.ask(query)
        keys = re.split(rf"^{title} dump:\n", out, flags=re.MULTILINE)[1:]
        heads = ["\n".join(k.splitlines()[: 3 if query != "GIR" else 2]) for k in keys]
        assert len(heads) == len(set(heads)) and len(heads) >= (hosts if query != "VLAR" else f.sizes.cables), query
    if kind == "small":
        ends = len([p for p in f.end_ports().tolist() if f.lid[p]])
        assert records(a.ask("-p"), "PathRecord") == ends * ends
    # One path, by LIDs and by names.
    port = int(f.ports_of(int(f.cas[-1]))[0])
    first = int(f.ports_of(int(f.cas[0]))[0])
    by_lid = a.ask("--src-to-dst", f"{f.lid[first]}:{f.lid[port]}")
    assert fields(by_lid, "slid", "dlid") == [(int(f.lid[first]), int(f.lid[port]))]
    name = f.node_name(int(f.cas[-1]))
    assert f"{int(f.lid[port])}" in a.ask("-L", name).split() and f"{int(f.port_guid[port]):#018x}" in a.ask("-G", name)
    assert name in a.ask("-O", str(f.lid[port]))
    assert records(a.ask("SMIR"), "SMInfoRecord") == 1 and "IsSM ports" in a.ask("-s")


@pytest.mark.parametrize("sm", ["internal", pytest.param("external", marks=pytest.mark.slow)])
def test_what_programs_told_the_administrator(sm, softib, stock):
    """A member, a subscription and a service of a program are listed, and the multicast tables lead to it."""
    a = Attached(softib, "small", sm, stock)
    assert not records(a.ask("-S"), "ServiceRecord")
    asked = records(a.ask("-I"), "InformInfoRecord")
    held = [
        subprocess.Popen(
            softib.words("run", "--node", f"node-00{i}", "--", sys.executable, "-I", str(PROGRAM), "subscriber"),
            env=softib.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in (2, 5)
    ]
    try:
        assert [p.stdout.readline() for p in held] == ["holding\n"] * 2
        assert records(a.ask("-S"), "ServiceRecord") == 2 and a.ask("-S").count("softib") == 2
        assert records(a.ask("-I"), "InformInfoRecord") == asked + 2
        assert "node-002" not in a.ask("-m")  # who has not the SM_Key sees groups, not members (IBA 15.4.1.2)
        members = a.ask("--smkey", "1", "-m")
        assert records(members, "MCMemberRecord member") == 2, members
        assert "node-002 mlx5_0" in members and "node-005 mlx5_0" in members
        assert wait_for(lambda: records(a.ask("MFTR"), "MFT Record") > 0)
    finally:
        for p in held:
            p.stdin.close()
            p.wait(120)
    assert not os.path.exists("sys")
