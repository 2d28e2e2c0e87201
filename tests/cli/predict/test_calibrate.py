"""``softib calibrate`` and ``softib simulate --against``, as typed. Oracles: the constants of the law that made a log; what other programs
measured of the same machines (osu_mbw_mr between GPUs of ABCI, perftest of Azure's virtual machines); the log's own figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softib.workloads.benchmark_logs.log import read_log
from softib.workloads.nccl.constants import Collective, busbw_factor
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import machine_of
from softib.workloads.nccl.tuning import choose
from tests.cli.documents import check
from tests.cli.run import one_line, softib

SIZES = tuple(1 << k for k in range(3, 31, 3))
RAILS = "name: two\ngeneration: HDR\ntopology: {kind: rail-optimized, nodes: 2, rails: 8, radix: 64}\n"
PAIR = "name: pair\ngeneration: HDR\ntopology: {kind: fat-tree, levels: 1, radix: 40, hosts: 2}\n"
HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def log_of(
    times: dict[int, float],
    nodes: int = 2,
    gpus: int = 8,
    gpu: str = "NVIDIA A100-SXM4-80GB",
    unit: str = "us",
    prefix: str = "",
) -> str:
    """A log as nccl-tests prints it, of an all-reduce that took these µs."""
    ranks = range(nodes * gpus)
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0"
    ]
    lines += [
        f"#  Rank {r:2} Group  0 Pid {900 + r:6} on  gpu-{r // gpus} device {r % gpus:2} [0x0f] {gpu}" for r in ranks
    ]
    lines += HEAD.replace("(us)", f"({unit})").splitlines()
    for size, us in times.items():
        algbw = size / us / 1e3
        figures = f"{us:8.2f} {algbw:7.2f} {algbw * busbw_factor(Collective.ALL_REDUCE, len(ranks)):7.2f}      0"
        lines.append(f"{size:12} {size // 4:13}     float     sum      -1 {figures} {figures}")
    return "".join(f"{prefix}{line}\n" for line in [*lines, "# Avg bus bandwidth    : 12.3"])


def law(sizes: tuple[int, ...] = SIZES, **but) -> dict[int, float]:
    """µs by size on two DGX A100 with other constants."""
    m = machine_of("a100").but(**but)
    return {
        s: predicted_us(Collective.ALL_REDUCE, choose(Collective.ALL_REDUCE, s, m, 2, nccl="2.30"), s, m, 2)
        for s in sizes
    }


@pytest.mark.parametrize("prefix", (" 0: ", "[1,0]<stdout>:"))
def test_what_launchers_write_in_front_of_lines_changes_nothing(tmp_path, prefix):
    for name, text in (("plain", log_of(law())), ("prefixed", log_of(law(), prefix=prefix))):
        (tmp_path / name).write_text(text)
    assert replace(read_log(tmp_path / "prefixed"), path="") == replace(read_log(tmp_path / "plain"), path="")


def test_a_log_of_a_known_law_gives_its_constants_back(tmp_path):
    (tmp_path / "a.log").write_text(log_of(law(gpu_nic_gbps=140.0, constants={"launch": 11.0, "latency": 1.9})))
    ran = softib("calibrate", tmp_path / "a.log", "--machine", tmp_path / "m.yaml", "--json")
    document = check("calibrate", ran.json())
    values = {c["name"]: c["value"] for c in document["fitted"]}
    assert values == pytest.approx({"nccl.launch": 11.0, "nccl.latency": 1.9, "gpu_nic_gbps": 140.0}, rel=0.01)
    assert document["error_left_out"] < 0.005 < document["error_before"]
    (tmp_path / "f.yaml").write_text(RAILS)
    ran = softib(
        "simulate",
        tmp_path / "f.yaml",
        "nccl-all-reduce:1MB",
        "--machine",
        tmp_path / "m.yaml",
        "--against",
        tmp_path / "a.log",
        "--json",
    )
    against = check("simulate", ran.json())["against"]
    assert against["mean_error"] < 0.03 and [r["bytes"] for r in against["rows"]] == list(SIZES)
    trust = ran.json()["jobs"][0]["trust"]
    assert (trust["verdict"], trust["nearest"]) == ("measured", "a.log")


@pytest.mark.parametrize(
    ("node", "nics", "more", "measured"),
    [
        ("anode", 4, "cpu=intel", 77.92),
        pytest.param("vnode", 2, "gpudirect=phb", 81.6, marks=pytest.mark.slow),
    ],
)
def test_the_rate_between_gpus_and_adapters_is_what_another_program_measured(shared_data, node, nics, more, measured):
    """osu_mbw_mr between GPUs of ABCI's nodes; the log is NCCL's alone."""
    log = next(shared_data.glob(f"abci2/allreduce__inter_{node}__job04.*.nccl"))
    document = softib("calibrate", log, "--workload", f"nccl-all-reduce,nics={nics},nccl=2.8,{more}", "--json").json()
    values = {c["name"]: c["value"] for c in document["fitted"]}
    assert values["gpu_nic_gbps"] == pytest.approx(measured, rel=0.05)
    assert document["error_left_out"] < 0.08 < document["error_before"] * 1.5


@pytest.mark.slow
def test_the_time_of_a_program_is_what_perftest_needs_there(shared_data, tmp_path):
    """program_ns of Azure's HBv3 by osu_latency; ib_send_lat of the same machines takes 860 ns (docs/evidence/validation.md)."""
    (tmp_path / "f.yaml").write_text(PAIR)
    log = next(shared_data.glob("lln-azure-osu/*cpu__size64*"))
    args = ("calibrate", log, "--source", tmp_path / "f.yaml", "--machine", tmp_path / "m.yaml", "--workload")
    (fitted,) = softib(*args, "mpi-latency", "--json").json()["fitted"]
    assert fitted["name"] == "hosts.program_ns" and fitted["value"] == pytest.approx(860, rel=0.05)
    both = softib(*args, "mpi-bandwidth", "--json").json()["machine"]
    assert both["hosts"].keys() == {"program_ns", "post_ns"} and [m["what"] for m in both["measured"]] == [
        "latency",
        "bandwidth",
    ]


def test_measured_stands_beside_predicted(shared_data, tmp_path):
    (tmp_path / "f.yaml").write_text(PAIR)
    log = next(shared_data.glob("lln-azure-osu/*cpu__size64*"))
    ran = softib(
        "simulate", tmp_path / "f.yaml", "mpi-latency:8", "--hosts", "program_ns=860", "--against", log, "--json"
    )
    against = check("simulate", ran.json())["against"]
    assert (against["unit"], against["rows"][0]["measured"]) == ("us", 1.56)
    assert against["mean_error"] < 0.06 and against["inside"] == len(against["rows"]) == 23


TWO = {8: 30.0, 1024: 31.0}


@pytest.mark.parametrize(("text", "options", "message"), [
    (log_of(TWO), ("--workload", "nccl-all-reduce"), "2 rows for"),
    (log_of(law()), ("--workload", "nccl-all-gather"), "is of all-reduce, not of all-gather"),
    (log_of(law()), ("--workload", "mpi-latency"), "the workload is mpi-latency"),
    (log_of(law(), unit="ms"), (), "times in (ms)"),
    (log_of(law(), gpu="NVIDIA GeForce RTX 3090"), (), "'NVIDIA GeForce RTX 3090' is not described"),
    (HEAD + "".join(f"{s} {s} float sum -1 {t:.2f} {s / t / 1e3:.2f} {s / t / 533:.2f} 0 {t:.2f} 1.00 1.00 0\n" for s, t in law().items()), (), "does not list devices"),
    ("# OSU MPI Latency Test v7.3\n# Size  Avg Latency(ms)\n8 1.5\n", ("--source", "pair"), "has us"),
    ("# OSU MPI Latency Test v7.3\n# Size  Avg Latency(us)\n8 1.5\n", (), "add --source"),
    ("# OSU MPI Latency Test v7.3\n# Size  Avg Latency(us)\n8 1.5\n16 1.6\n", ("--source", "pair"), "2 rows for 1 constant"),
    ("# OSU MPI-CUDA Latency Test v7.3\n# Size  Avg Latency(us)\n8 1.5\n", ("--source", "pair"), "MPI-CUDA Latency is not a benchmark"),
    ("# OSU MPI Multiple Bandwidth / Message Rate Test v7.3\n# [ pairs: 4 ] [ window size: 64 ]\n# Size  MB/s  Messages/s\n8 1 1\n", ("--source", "pair"), "4 pairs"),
    ("nothing at all\n", (), "neither a log of nccl-tests"),
    ("\x00\xff" * 50, (), "neither a log of nccl-tests"),
    (HEAD, (), "has no rows"),
])  # fmt: skip # a packed list of short values
def test_a_log_that_tells_nothing_is_one_line(tmp_path, text, options, message):
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "pair.yaml").write_text(PAIR)
    given = [str(tmp_path / "pair.yaml") if o == "pair" else o for o in options]
    assert message in one_line(softib("calibrate", tmp_path / "a.log", *given))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu: A1\n", "GPU of the machine"),
        ("gpus: 8\nnccl: {lunch: 3}\n", "no parameter lunch"),
        ("ncl: {}\n", "key of a machine file"),
        ("hosts: {program: 3}\n", "key of hosts"),
        ("gpus: many\n", "m.yaml:1"),
    ],
)
def test_a_wrong_machine_file_is_one_line(tmp_path, text, message):
    (tmp_path / "m.yaml").write_text(text)
    (tmp_path / "f.yaml").write_text(RAILS)
    assert message in one_line(
        softib("simulate", tmp_path / "f.yaml", "nccl-all-reduce:1MB", "--machine", tmp_path / "m.yaml")
    )


def test_a_log_of_other_nodes_is_refused(tmp_path):
    (tmp_path / "a.log").write_text(log_of(law(), nodes=4))
    (tmp_path / "f.yaml").write_text(RAILS)
    assert "32 GPUs of 4 nodes" in one_line(
        softib("simulate", tmp_path / "f.yaml", "nccl-all-reduce:1MB", "--against", tmp_path / "a.log")
    )
