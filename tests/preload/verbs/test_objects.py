"""What several processes share: imported regions and device memory, XRC targets. The programs are in ``programs/``."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.preload.verbs.applications import FABRIC, A, Applications, B, ended, stop
from tests.preload.verbs.c_programs import output, program, run


@pytest.mark.parametrize("scene", ("regions", "memory", "target"))
def test_another_process_uses_what_it_imports(apps, scene):
    """By the descriptor of the context, passed through a socket; XRC by the domain's file."""
    assert run(apps, A, program("imports"), scene) == "ok\n"


@pytest.mark.parametrize("scene", (("ends",), ("mixed",), ("race", "20"), ("importer", "20"), ("maker",)), ids="-".join)
def test_who_ends_what_is_shared_ends_it_for_all(apps, scene):
    """ibv_import_mr(3), ibv_import_dm(3), with private memory: afterwards the others' requests fail, and nobody copies there any more."""
    assert run(apps, A, "env", "SOFTIB_REMAP=0", program("shared_ends"), *scene) == "ok\n"


def test_a_qp_is_destroyed_by_who_polls_its_cq(apps):
    """Between ibv_start_poll and ibv_end_poll, which the thread would wait for."""
    assert run(apps, A, program("batch"), limit_s=60) == "ok\n"


def test_what_is_not_there_is_refused(apps):
    assert run(apps, A, program("refused")) == "ok\n"


def test_nobody_copies_to_memory_that_was_deregistered(apps):
    """Not the own process either: another thread of it, in the middle of a READ into the region."""
    assert run(apps, A, program("dereg"), "30") == "ok\n"


def test_ending_many_objects_takes_no_longer_than_making_them(apps):
    """In the order of their making: each was looked for in a list of all that came after it (40,000 regions 1.6 s, a million 18 minutes)."""
    regions, ended_regions, pairs, ended_pairs = map(float, run(apps, A, program("end_in_order"), "40000").split())
    assert ended_regions < regions and ended_pairs < 4 * pairs


@pytest.mark.stock
def test_a_connection_migrates_to_its_alternate_path(tmp_path):
    """Two LIDs a port, over two spines. The leaf's link of the primary path is cut: both ends go on with the alternate one,
    and say so; they are armed again, told to migrate, and refuse a path that they do not know (IBA 17.2.8)."""
    apm = program("apm")
    fabric = Applications(FABRIC, "--lmc", "1")
    try:
        source, target = lid(fabric, A), lid(fabric, B)
        there, back = links(fabric, source, target), links(fabric, target, source)
        bit = int(
            there[1] != back[1]
        )  # of the target's LID that is reached through the spine that leads back to the source
        cable = links(fabric, source, target + bit)[0]
        ends = [
            fabric.begin(node, apm, str(tmp_path), name, str(of))
            for node, name, of in ((A, "first", 0), (B, "second", bit))
        ]
        try:
            assert ends[0].stdout.readline() == "armed\n", [output(end) for end in ends]
            fabric("fault", "link-down", cable)
            assert ends[0].stdout.readline() == "migrated\n", [output(end) for end in ends]
            fabric("fault", "link-up", cable)
            until_routed(fabric, source, target + bit, cable)
            (tmp_path / "mended").write_bytes(b"\0")
            (tmp_path / "mended").rename(tmp_path / "mended-4")  # whole from the first: the program looks all the time
            ended(*ends, 90)
        finally:
            for end in ends:
                stop(end)
    finally:
        fabric.close()


def links(fabric, source: int, target: int) -> tuple[str, str]:
    """The port by which the leaf of ``source`` sends to ``target``, ``leaf-1[3]``, and the spine behind it."""
    route = subprocess.run(
        fabric.on(A, "ibtracert", str(source), str(target)), env=fabric.env, capture_output=True, text=True
    )
    hops = re.findall(r'^\[(\d+)\] -> switch port \{0x\w+\}\[\d+\] lid [\d-]+ "(\S+)"', route.stdout, re.M)
    return (f"{hops[0][1]}[{hops[1][0]}]", hops[1][1]) if len(hops) == 3 else ("", "")


def until_routed(fabric, source: int, target: int, cable: str, limit_s: float = 240) -> None:
    """The subnet manager sends over the cable again."""
    end = time.monotonic() + limit_s
    while links(fabric, source, target)[0] != cable:
        assert time.monotonic() < end
        time.sleep(0.1)


def lid(fabric, node: str) -> int:
    done = subprocess.run(
        fabric.on(node, "smpquery", "-D", "portinfo", "0", "1"), env=fabric.env, capture_output=True, text=True
    )
    return int(re.search(r"^Lid:\.*(\d+)", done.stdout, re.M)[1])


@pytest.mark.parametrize("scene", ("states", "flags", "errors", "limits", "windows", "forks", "errno"))
def test_what_libibverbs_reports_besides_the_data(apps, scene):
    """The state in ``struct ibv_qp`` (modify and query alone write it), IBV_WC_GRH, errno, limits that are kept, keys of windows; a fork."""
    assert run(apps, A, program("reports"), scene) == "ok\n"


@pytest.mark.parametrize("scene", ("keys", "invalidate", "immediate", "notify", "windows", "datagrams", "bounds"))
def test_statuses_are_those_of_adapters(apps, scene):
    """What google/rdma-unit-test tells apart: who refuses first, what a receive says, IBV_WC_GRH, windows, and limits that are kept."""
    assert run(apps, A, program("statuses"), scene) == "ok\n"


def heap(apps) -> tuple[int, int]:
    """Octets that the file of verbs takes, and of it what the daemon has in memory."""
    pid = apps.status()["pid"]
    shared = re.search(r"^RssShmem:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return apps.status()["verbs"]["octets"], int(shared[1]) * 1024


def test_a_thousand_objects_leave_no_memory(apps):
    """QPs, CQs and regions of programs that destroy them, that end, and that are killed."""
    run(apps, A, "sh", "-c", f"yes | {program('many')} 1")
    before = heap(apps)
    one = subprocess.Popen(
        apps.on(A, program("many"), "1000"), env=apps.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert one.stdout.readline() == "made\n" and heap(apps)[0] > before[0] + 8_000_000
    one.stdin.write("\n")
    one.stdin.flush()
    assert (
        one.stdout.readline() == "destroyed\n" and heap(apps)[0] < before[0] + 1_500_000
    )  # a chunk of each size, 16 blocks of keys
    one.communicate("\n", timeout=60)
    for _ in range(3):
        victim = apps.begin(A, program("many"), "1000", "stay")
        assert victim.stdout.readline() == "made\n"
        stop(victim)
    deadline = time.monotonic() + 60
    while heap(apps)[0] > before[0] + 256 * 1024 and time.monotonic() < deadline:
        time.sleep(0.2)
    octets, resident = heap(apps)
    assert octets <= before[0] + 256 * 1024 and resident <= before[1] + 1024 * 1024, (before, octets, resident)


@pytest.mark.parametrize("remap", ("0", "1"))
def test_null_regions_and_buffers_by_descriptor(apps, remap):
    """ibv_alloc_null_mr(3): zeros to read, nothing kept, no R_Key. ibv_reg_dmabuf_mr(3): what a peer writes is in the file, which is the oracle."""
    assert run(apps, A, "env", f"SOFTIB_REMAP={remap}", program("buffers"), limit_s=60) == "ok\n"
