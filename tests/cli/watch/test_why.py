"""``softib why``. Oracles: stories recorded on running fabrics (tests/analysis/jobs), the posted lines of nccl#1814, and hostile input."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import softib
from softib.fabric.formats.registry import write
from softib.iba.smp import PortInfo
from tests.analysis.jobs.recorded_stories import FOLDER, logs_of, truth_of
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command

ROCE = (
    "hostname-test:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=12 opcode=129 "
    "len=65536 vendor err 129 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221\n"
)
POD = ("--fabric", FOLDER / "pod.ibnetdiscover", "--lfts", FOLDER / "pod.lft.gz")


def test_a_log_alone_gives_ranked_causes_and_what_is_missing(tmp_path):
    log = tmp_path / "job.log"
    log.write_text(ROCE)
    ran = command("why", log)
    assert ran.code == 0 and "1. " in ran.out and "not-infiniband" in ran.out.split("1. ")[1].splitlines()[0]
    document = check("why", command("why", log, "--json").json())
    assert document["symptom"] == "retry-exceeded" and document["causes"][0]["code"] == "not-infiniband"
    assert sum(c["probability"] for c in document["causes"]) <= 1.05


def test_with_a_fabric_the_path_of_the_tables_is_shown():
    """Oracle: ``softib path`` on the same tables."""
    name = "002-bit-errors"
    document = check("why", command("why", *logs_of(name), *POD, "--json").json())
    first, second = document["ends"]
    hops = command("path", POD[1], first, second, "--lfts", POD[3], "--json").json()["hops"]
    assert [h["link"].count("↔") for h in document["path"]] == [1] * len(hops)
    for hop, shown in zip(hops, document["path"], strict=True):
        assert f"{hop['node']}[{hop['out_port']}]" in shown["link"]
    assert sorted(truth_of(name)["hosts"]) == sorted(e.partition("[")[0] for e in document["ends"])


def test_what_is_no_log_is_named_with_the_verb_for_it(tmp_path):
    """Random bytes, a program, a dump and its tables as stock tools wrote them (FOLDER); a log without errors stays one."""
    noise, log = tmp_path / "core", tmp_path / "job.log"
    noise.write_bytes(bytes(range(256)) * 400)
    for path in (noise, sys.executable):
        assert "this is binary data, not a log" in one_line(command("why", path))
    dump = one_line(command("why", FOLDER / "pod.ibnetdiscover"))
    assert "not a log; use it with --fabric" in dump and "softib check" in dump
    assert "not a log; use it with --lfts" in one_line(command("why", POD[3]))
    log.write_text("epoch 1 of 3: loss 0.5\n")
    assert command("why", log).code == 0
    assert "pod.ibnetdiscover: this is" in one_line(command("why", log, FOLDER / "pod.ibnetdiscover"))


def test_a_gid_of_another_fabric_and_a_host_that_is_none_are_said(tmp_path):
    log = tmp_path / "job.log"
    log.write_text(ROCE.replace("::ffff:29.87.88.182", "fe80::dead:1").replace("::ffff:29.87.4.221", "fe80::dead:2"))
    ran = command("why", log, *POD, "--hosts", "nowhere-[1-2]")
    assert ran.code == 0 and "GID fe80::dead:1 is not in this fabric" in ran.out
    assert "host nowhere-1 is not in this fabric, nor 1 more" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("absent.log",),
        ("LOG", "--fabric", "absent.ibnetdiscover"),
        ("LOG", "--at", "yesterday"),
        ("LOG", "--lfts", "LOG"),
        ("LOG", "--hosts", "a b;c"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments):
    log = tmp_path / "job.log"
    log.write_text("nothing\n")
    one_line(command("why", *(log if a == "LOG" else a for a in arguments)))


def test_a_history_without_that_time_says_so(tmp_path):
    empty = tmp_path / "history"
    empty.mkdir()
    log = tmp_path / "job.log"
    log.write_text(ROCE)
    assert "contains no history" in one_line(command("why", log, "--history", empty))


def test_limited_members_are_named_from_a_design_and_a_log_alone(tmp_path):
    """Oracle: IBA 10.9.3, and ``softib path``, which says so of the same pair."""
    conf, source, log = tmp_path / "p.conf", tmp_path / "f.yaml", tmp_path / "job.log"
    conf.write_text("Default=0x7fff: ALL=limited, SELF=full;\n")
    source.write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\nsm: {partitions: p.conf}\n")
    path = command("path", source, "host-0002", "host-0008", "--json").json()
    log.write_text(
        f"  local address:  LID 0x{path['slid']:04x}, QPN 0x1, PSN 0x1, GID ::\n"
        f"  remote address: LID 0x{path['dlid']:04x}, QPN 0x2, PSN 0x1, GID ::\n"
        f"Failed status transport retry counter exceeded (12) for wr_id 2\n"
    )
    document = command("why", log, "--fabric", source, "--json").json()
    assert document["ends"] == ["host-0002[1]", "host-0008[1]"]
    assert document["causes"][0]["code"] == "partition" and document["causes"][0]["probability"] > 0.9


@pytest.mark.slow
def test_a_fabric_of_11664_hosts_takes_less_than_5_seconds(tmp_path):
    """Three tiers of 36 ports, as ibnetdiscover's text; without tables, so all shortest paths are weighed. Processor time: the machine
    is shared."""
    f = softib.generate("fat-tree", radix=36, levels=3).arrays
    ends = f.end_ports()
    PortInfo.lid.set(f.port_info, np.arange(1, len(ends) + 1), ends)
    write(f, tmp_path / "big.ibnetdiscover")
    hosts = ends[~f.is_switch[f.port_node[ends]]]
    log = tmp_path / "job.log"
    log.write_text(
        f"  local address:  LID 0x{int(f.lid[hosts[0]]):04x}, QPN 0x1, PSN 0x1, GID ::\n"
        f"  remote address: LID 0x{int(f.lid[hosts[-1]]):04x}, QPN 0x1, PSN 0x1, GID ::\n"
        f"Failed status transport retry counter exceeded (12) for wr_id 2\n"
    )
    began = time.process_time()
    found = softib.why(log, fabric=tmp_path / "big.ibnetdiscover")
    assert len(found.ends) == 2 and time.process_time() - began < 5.0
    # 18 leaves' uplinks, 18 x 18 to the cores, at each end, and two hosts' cables
    assert found.cables == 2 * (1 + 18 + 18 * 18)
