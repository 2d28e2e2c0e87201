"""Readers of job logs. Oracles: libibverbs' own texts and rdma-core's header, programs' lines recorded here, hostile files."""

from __future__ import annotations

import ctypes
import ctypes.util
import gzip
import json
import pickle
import re
import time
from datetime import datetime
from pathlib import Path

import pytest

import softib
from softib.errors import UnreadableFile
from softib.job_logs.clock import time_of
from softib.job_logs.events import SYMPTOMS
from softib.job_logs.patterns import STATUS
from softib.job_logs.read import READERS, read_logs
from tests.extent import extent

HEADER = Path("/usr/include/infiniband/verbs.h")


def write(tmp_path, text, name="job.log"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_each_status_text_of_libibverbs_has_the_symptom_of_its_number(tmp_path):
    name = ctypes.util.find_library("ibverbs")
    if name is None:
        pytest.skip("libibverbs is not installed")
    text_of = ctypes.CDLL(name).ibv_wc_status_str
    text_of.restype = ctypes.c_char_p
    for status, symptom in STATUS.items():
        line = f"Failed status {text_of(status).decode()} ({status}) for wr_id 2\n"
        assert [e.symptom for e in read_logs([write(tmp_path, line)]).events] == [symptom], line


@pytest.mark.skipif(not HEADER.exists(), reason="libibverbs-dev is not installed")
def test_numbers_of_statuses_are_those_of_the_header():
    body = re.search(r"enum ibv_wc_status \{(.*?)\}", HEADER.read_text(), re.S)
    names = [n.strip() for n in body[1].split(",") if n.strip()]
    assert names[12] == "IBV_WC_RETRY_EXC_ERR" and names[13] == "IBV_WC_RNR_RETRY_EXC_ERR"
    assert names[5] == "IBV_WC_WR_FLUSH_ERR" and names[10] == "IBV_WC_REM_ACCESS_ERR"
    assert STATUS[12] == "retry-exceeded" and STATUS[13] == "receiver-not-ready" and STATUS[10] == "remote-access"


def test_every_pattern_has_a_declared_symptom_and_finds_its_own_literal():
    for reader in READERS:
        for one in reader.patterns:
            assert one.continues or one.pair or not one.symptom or one.symptom in SYMPTOMS
            said = one.symptom or one.continues or one.pair or one.starts or one.ends
            assert said or {"status", "synd", "statustext"} & set(one.regex.groupindex), one


def test_times_of_lines_are_those_that_python_writes():
    when = datetime(2026, 11, 26, 11, 15, 18, 250_000)
    at = when.timestamp()
    assert time_of(f"[{at:.6f}] [vm:1:0] UCX ERROR", 2026) == pytest.approx(at)
    assert time_of(f"{when.isoformat()} kernel", 2026) == pytest.approx(at)
    assert time_of(when.astimezone().isoformat(), 2026) == pytest.approx(at)
    assert time_of(when.strftime("%b %d %H:%M:%S node kernel:"), 2026) == pytest.approx(at, abs=0.3)
    assert time_of(when.strftime("[E%m%d %H:%M:%S.250000 file.cpp:1]"), 2026) == pytest.approx(at)
    assert time_of(when.strftime("[%a %b %d %H:%M:%S %Y] mlx5_core"), 1999) == pytest.approx(at, abs=0.3)
    assert time_of("2026-13-45 99:99:99", 2026) is None


def test_mixed_compressed_cut_and_foreign_logs(tmp_path):
    good = "[a1:1:0:1] ib_mlx5_log.c:1 Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"
    text = (
        "Слишком много ошибок\n" + "\udcff".encode("utf-8", "surrogateescape").decode("latin-1") + "\n" + good
    )  # no line end: cut
    assert [e.symptom for e in read_logs([write(tmp_path, text)]).events] == ["retry-exceeded"]
    packed = tmp_path / "job.log.gz"
    packed.write_bytes(gzip.compress(good.encode()))
    both = read_logs([packed, write(tmp_path, "\x00\x01\x02" * 1000 + "\n" + good, "b.log")])
    assert [(e.symptom, e.file) for e in both.events] == [
        ("retry-exceeded", str(packed)),
        ("retry-exceeded", str(tmp_path / "b.log")),
    ]


def test_a_name_of_a_stranger_cannot_steer_the_terminal(tmp_path):
    line = "[h1:1:0:1] x \x1b[31m Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
    assert "\x1b" not in read_logs([write(tmp_path, line)]).events[0].text


def test_two_jobs_in_one_log_stay_two_pairs(tmp_path):
    lines = [
        f"n{i % 2}:1:2 [0] NCCL WARN NET/IB : Got completion from peer 1.2.3.4<5> with status=12 opcode=0 len=0 vendor err 129 (Send) "
        f"localGid fe80::{i % 2 + 1} remoteGids fe80::{i % 2 + 11}\n"
        for i in range(10)
    ]
    events = read_logs([write(tmp_path, "".join(lines))]).events
    assert [(e.count, e.local.gid, e.remote.gid) for e in events] == [
        (5, "fe80::1", "fe80::11"),
        (5, "fe80::2", "fe80::12"),
    ]


class Evil:
    def __reduce__(self):
        return (eval, ("__import__('os').makedirs('/tmp/softib-evil')",))


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path):
    path = write(tmp_path, pickle.dumps({"entries": [Evil()]}), "dump_0")
    with pytest.raises(UnreadableFile, match=r"names builtins\.eval"):
        read_logs([path])
    assert not Path("/tmp/softib-evil").exists()


@pytest.mark.parametrize("dumps", [lambda d: json.dumps(d).encode(), pickle.dumps])
def test_dumps_of_a_flight_recorder_name_the_rank_that_is_behind(tmp_path, dumps):
    """Rank 1 ended collective 6 and never began 7. Built by the published form of the recorder's dump."""
    paths = []
    for rank in range(3):
        entry = {
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "input_sizes": [[1024]],
            "is_p2p": False,
        }
        entries = [{**entry, "collective_seq_id": n, "state": "completed"} for n in range(1, 7)]
        entries += [] if rank == 1 else [{**entry, "collective_seq_id": 7, "state": "started"}]
        paths.append(write(tmp_path, dumps({"version": "2.4", "entries": entries}), f"nccl_trace_rank_{rank}"))
    first = read_logs(paths).events[0]
    assert (first.symptom, first.detail) == ("rank-behind", "ranks 1")


def test_a_long_log_is_streamed(tmp_path):
    """One event in the last line; the time is far below a second a million lines."""
    n = extent(200_000, 10_000_000)
    path = tmp_path / "long.log"
    with path.open("w") as file:
        for start in range(0, n, 10_000):
            file.write(
                "".join(f"step {i}: loss 1.25, error 0.5, 1 Failed attempt\n" for i in range(start, start + 10_000))
            )
        file.write(" Failed status 12: wr_id 0 syndrom 0x81\n")
    began = time.process_time()
    log = read_logs([path])
    assert (log.lines, log.events[0].line) == (n + 1, n + 1)
    assert time.process_time() - began < 1.0 + 2.0 * n / 1e6


@pytest.mark.parametrize(
    ("code", "symptom"), [(2, "aborted"), (1, "aborted"), (137, "process-died"), (139, "process-died")]
)
def test_exit_codes_above_128_are_signals(tmp_path, code, symptom):
    """POSIX: a shell's exit status of a command that a signal ended is 128 and its number."""
    assert [
        e.symptom
        for e in read_logs([write(tmp_path, f"  Process name: [[2966,1],2]\n  Exit code:    {code}\n")]).events
    ] == [symptom]


@pytest.mark.parametrize(
    "lines",
    [
        "ethernet_read_data: Couldn't read reports\n",
        "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n",
        " Unable to read from socket/rdma_cm\n Failed to exchange data between server and clients\n",
    ],
)
def test_perftest_whose_other_end_is_dead(tmp_path, lines):
    """Texts of perftest 4.5, seen when its other process was killed."""
    events = read_logs([write(tmp_path, lines)]).events
    assert [e.symptom for e in events] == ["peer-lost"] and events[0].count == lines.count("\n")
    cause = softib.why(write(tmp_path, lines)).causes[0]
    assert cause.code == "process-died"


@pytest.mark.parametrize(("code", "symptoms"), [(137, ["process-died"]), (139, ["process-died"]), (1, []), (143, [])])
def test_softib_run_says_which_signal_ended_a_program(tmp_path, code, symptoms):
    """SIGTERM (143) is of a scheduler or an operator: no cause."""
    line = f"softib: ib_send_bw ended with exit code {code}; keep its output: softib why LOG --fabric pod explains it\n"
    assert [e.symptom for e in read_logs([write(tmp_path, line)]).events] == symptoms


@pytest.mark.parametrize(
    "text",
    [
        "poll_health:825:(pid 0): device's health compromised - reached miss count",
        "health recovery flow aborted, PCI reads still not working",
        "mlx5_cmd_out_err:808:(pid 2211): ACCESS_REG(0x805) op_mod(0x1) failed, status internal error(0x1), syndrome (0x0)",
        "mlx5_health_try_recover:335:(pid 711): Fatal error 1 detected",
        "print_health_info:424:(pid 0): synd 0x1: firmware internal error",
        "wait_func:1132:(pid 2890): CREATE_CQ(0x400) timeout. Will cause a leak of a command resource",
    ],
)
def test_kernels_lines_of_a_failed_adapter(tmp_path, text):
    """Lines of Linux's mlx5 driver (health.c, cmd.c)."""
    log = read_logs([write(tmp_path, f"[Fri Nov 27 02:33:58 2026] mlx5_core 0000:c3:00.0: {text}\n")])
    assert [e.symptom for e in log.events] == ["device-fatal"]


def test_a_refused_command_of_an_application_is_no_failed_adapter(tmp_path):
    line = "mlx5_core 0000:c3:00.0: mlx5_cmd_out_err:808:(pid 1): CREATE_QP(0x500) op_mod(0x0) failed, status bad parameter(0x3)\n"
    assert not read_logs([write(tmp_path, line)]).events
