"""Collectives of an acceptance. Oracles: tables in the formats of OSU 7.3 and nccl-tests 2.13 that stand-in programs print, a law of the network
(no all-reduce is faster than its bytes over one link), failures of real launchers, and on a paced running fabric a real Open MPI program."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import softib
from softib.api.acceptance.accepting import where_to_measure
from softib.api.acceptance.collectives import collective_findings, run_collectives
from softib.live.acceptance.collective_runs import run_benchmark
from tests.conftest import find_shared_data
from tests.scratch import scratch

OSU = "# OSU MPI Allreduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n{rows}"
NCCL = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid   1190 on   node-1 device  0 [0x17] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid   1191 on   node-2 device  0 [0x17] NVIDIA A100-SXM4-80GB
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1  {us:>8}   {gbytes:>5}   {gbytes:>5}      0  {us:>8}   {gbytes:>5}   {gbytes:>5}      0
"""
SIZES = (4096, 1 << 20, 16 << 20)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    tree = softib.generate("fat-tree", radix=8, levels=2, hosts=16, generation="HDR")
    return where_to_measure(tree, ["host-0001", "host-0005", "host-0009", "host-0013"])


def program(folder: Path, text: str, name: str = "osu_allreduce") -> str:
    path = folder / name
    path.write_text(text)
    return f"cat {path}"


def osu(folder, factor, first):
    rows = "".join(f"{r.bytes:<10d}{factor * r.predicted:18.2f}\n" for r in first.rows)
    return program(folder, OSU.format(rows=rows))


def test_sizes_outside_of_their_ranges_are_a_finding(place, tmp_path):
    plain = program(tmp_path, OSU.format(rows="".join(f"{s} 1.0\n" for s in SIZES)))
    (first,) = run_collectives(place, [plain], 1)
    assert [r.bytes for r in first.rows] == list(SIZES) and not first.why and first.hosts == 4
    for row in first.rows:  # four ranks: each must send 2 * 3/4 of its bytes at 200 Gb/s or less
        assert row.predicted > 1.5 * row.bytes * 8 / 200e3 and row.low <= row.predicted <= row.high
    assert not first.slow, "faster than predicted is no fault"
    (same,) = run_collectives(place, [osu(tmp_path, 1.0, first)], 1)
    (slow,) = run_collectives(place, [osu(tmp_path, 20.0, first)], 1)
    assert not same.slow and [r.bytes for r in slow.slow] == list(SIZES)
    assert not list(collective_findings([first, same]))
    (finding,) = collective_findings([slow])
    assert finding.code == "collective-slow" and "3 of 3 sizes" in finding.message


def test_ranks_of_one_host_are_predicted_as_such(place, tmp_path):
    command = program(tmp_path, OSU.format(rows=f"{1 << 20} 1.0\n"))
    one, eight = (run_collectives(place, [command], n)[0].rows[0].predicted for n in (1, 8))
    assert one != eight


def test_nccl_tests_state_their_gpus(place, tmp_path):
    """One GPU of two nodes; the fabric has four, so that the log is of other hosts until two are chosen."""
    text = NCCL.format(us=100000, gbytes=10.74)
    (four,) = run_collectives(place, [program(tmp_path, text, "all_reduce_perf")], 1)
    assert "2 GPUs of 2 nodes" in four.why and [r.predicted for r in four.rows] == [None]
    tree = softib.generate("fat-tree", radix=8, levels=2, hosts=16, generation="HDR")
    two = where_to_measure(tree, ["host-0001", "host-0005"])
    (run,) = run_collectives(two, [program(tmp_path, text, "all_reduce_perf")], 1)
    assert (run.collective, run.program, run.why) == ("nccl-all-reduce", "nccl-tests", "")
    assert run.rows[0].predicted > (1 << 30) * 8 / 200e3, "all bytes cross one link of 200 Gb/s"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("osu_allreduce_of_no_host", "No such file"),
        ("sh -c 'echo osu_allreduce: cannot open shared object file >&2; exit 127'", "cannot open shared object"),
        ("echo hello", "neither a log of nccl-tests"),
        ("printf '# OSU MPI Allreduce Latency Test v7.3\\n# Size       Avg Latency(us)\\n'", "has no rows"),
        (
            "printf '# OSU MPI Barrier Latency Test v7.3\\n# Avg Latency(us)\\n 4.1\\n'",
            "not a benchmark that softib predicts",
        ),
    ],
)
def test_what_did_not_measure_is_said(place, command, words):
    (run,) = run_collectives(place, [command], 1)
    assert words in run.why and not run.rows and "/tmp" not in run.why.replace("/tmp/osu", "")
    (finding,) = collective_findings([run])
    assert finding.code == "collective-unmeasured" and words in finding.message


def test_a_list_of_hosts_is_measured_without_a_prediction(tmp_path):
    command = program(tmp_path, OSU.format(rows="4096 5.0\n"))
    (run,) = run_collectives(where_to_measure(["node-1", "node-2"]), [command], 1)
    assert [(r.measured, r.predicted, r.judged) for r in run.rows] == [(5.0, None, False)]
    assert "no cables" in run.why and next(collective_findings([run])).severity.name == "INFO"


def test_a_benchmark_that_hangs_or_floods_is_ended():
    began = time.monotonic()
    why = run_benchmark(["sleep", "600"], 0.5).failure
    assert why == "not finished after 0 s" or "not finished" in why
    assert time.monotonic() - began < 60
    why = run_benchmark([sys.executable, "-c", "print('x' * (17 << 20))"]).failure
    assert "more than 16 MiB" in why


@pytest.mark.parametrize("commands", ["mpirun osu_allreduce", [""], ["mpirun 'osu"]])
def test_commands_that_cannot_be_are_one_line(commands):
    tree = softib.generate("fat-tree", radix=4, levels=2)
    with pytest.raises(softib.InputError, match="collective"):
        softib.accept(tree, launcher="ssh", collectives=commands)
    with pytest.raises(softib.InputError, match="collective"):
        softib.cover(tree, collectives=commands)


@pytest.fixture
def paced(monkeypatch):
    """1x SDR: an all-reduce of 16 MiB takes 0.1 s on a machine with time for it."""
    folder = scratch("collectives-", memory=True)
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    tree = softib.generate("fat-tree", radix=4, levels=2, hosts=4, generation="SDR")
    f = softib.up(tree, name="collectives", pace=True)
    f.fault("downgrade", "*[*]", width=1)
    time.sleep(3)
    yield f
    f.down()


@pytest.mark.slow
@pytest.mark.stock
def test_a_real_mpi_program_on_a_paced_fabric_shows_a_slow_port(paced, stock, tmp_path):
    stock("ib_write_bw")
    mpirun = stock("mpirun")
    benchmark = tmp_path / "osu_allreduce"
    source = Path(__file__).parents[2] / "live" / "acceptance" / "osu_allreduce.c"
    subprocess.run([stock("mpicc"), "-O2", str(source), "-o", str(benchmark)], check=True)
    nodes = ",".join(f"host-000{n}" for n in range(1, 5))
    command = (
        f"{mpirun} --allow-run-as-root --oversubscribe -np 4 -x OMPI_MCA_pml=ucx {sys.executable} -m softib run "
        f"--fabric collectives --node {nodes} -- {benchmark} {16 << 20} {16 << 20}"
    )
    run = softib.accept(paced, tests=["bandwidth"], seconds=0.1, rounds=1, collectives=[command])
    (row,) = run.collectives[0].rows
    assert row.judged and row.measured > 0.9 * row.predicted, "no collective is faster than its links"
    assert "mpi-allreduce on 4 hosts" in "\n".join(run.lines())
    paced.fault("slow-port", "host-0003[1]", gbps=0.1)
    slow = softib.accept(paced, tests=["bandwidth"], seconds=0.1, rounds=1, collectives=[command])
    (row,) = slow.collectives[0].rows
    assert row.measured > 10 * row.predicted, "a twentieth of the rate"
    assert slow.findings.of("collective-slow"), slow.collectives


def test_a_real_log_of_osu_is_not_slow():
    """osu_latency between two hosts of a site with EDR adapters (1.1 us, 12 GB/s): no size is slow."""
    folder = find_shared_data()
    if folder is None:
        pytest.skip("no real data")
    log = folder / "ofc-osu-edr" / "network__infiniband__osu-mpi-benchmarks__initial__latency__compute001.log"
    tree = softib.generate("fat-tree", radix=4, levels=2, generation="EDR")
    (run,) = run_collectives(where_to_measure(tree, ["host-0001", "host-0002"]), [f"cat {log}"], 1)
    assert run.collective == "mpi-latency" and not run.why and len(run.rows) > 15
    assert not run.slow
