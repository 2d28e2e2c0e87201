"""Reports of Nsight Systems as SQLite: NCCL's calls with sizes and communicators, and hostile files. The tables have the columns of the export (Nsight Systems' documentation of its SQLite schema), the
payloads those of NCCL's nvtx_payload_schemas.h."""

from __future__ import annotations

import gzip
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.workloads.schedule.schedule import Kind, matched
from softib.workloads.traces.forms import read_trace

SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, streamId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData BLOB);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, "offset" INTEGER);
"""
COMM, SIZE, INT = ("NCCL communicator ID", 18), ("Message size [bytes]", 22), 5
FIELDS = {
    1: (COMM, ("No. of ranks", INT), ("Rank", INT), ("CUDA device", INT)),
    2: (COMM, SIZE, ("Reduction operation", 4097)),
    3: (COMM, SIZE),
    4: (COMM, SIZE, ("Peer rank", INT)),
    5: (COMM, SIZE, ("Root", INT)),
}
SCHEMAS = {
    "ncclCommInitRankConfig": 1,
    "ncclAllReduce": 2,
    "ncclAllGather": 3,
    "ncclReduceScatter": 2,
    "ncclSend": 4,
    "ncclRecv": 4,
    "ncclBroadcast": 5,
}
PID, TID = 77 << 24, 77 << 24 | 5
WORLD = 0xFEEDFACECAFEBEEF


class Report:
    """A report that is written event by event; times in us."""

    def __init__(self, path: Path):
        self.path, self.held, self.launches, self.strings = path, sqlite3.connect(path), 0, {}
        self.held.executescript(SCHEMA)
        for schema, entries in FIELDS.items():
            at = 0
            for k, (name, kind) in enumerate(entries):
                self.insert("NVTX_PAYLOAD_SCHEMA_ENTRIES", 9, schema, k, kind, name, at or None)
                at += 4 if kind in (INT, 4097) else 8

    def insert(self, table: str, *row: object) -> None:
        self.held.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.insert("StringIds", self.strings[text], text)
        return self.strings[text]

    def call(self, name: str, at: float, *values: int, took: float = 1, entries: int | None = None) -> Report:
        schema = SCHEMAS[name]
        kinds = [kind for _, kind in FIELDS[schema]]
        body = struct.pack("<" + "".join("i" if k in (INT, 4097) else "Q" for k in kinds[: len(values)]), *values)
        head = struct.pack("<QQQQ", 9, schema, len(body), 32)
        text = self.string(name)
        self.insert("NVTX_EVENTS", round(at * 1e3), round((at + took) * 1e3), 59, None, TID, text, 9, head + body)
        return self

    def kernel(
        self, launch: float, at: float, took: float, name: str = "gemm", stream: int = 7, device: int = 0
    ) -> Report:
        self.launches += 1
        self.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            round(launch * 1e3),
            round(launch * 1e3) + 5,
            TID,
            self.launches,
            self.string("cudaLaunchKernelExC_v11060"),
        )
        text = self.string(name)
        begin = round(at * 1e3)
        self.insert(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            begin,
            begin + round(took * 1e3),
            device,
            stream,
            self.launches,
            PID,
            text,
            text,
        )
        return self

    def nccl(self, name: str, at: float, begin: float, took: float, *values: int) -> Report:
        """A call outside a group, which launches its kernel."""
        kernel = f"ncclDevKernel_{name.removeprefix('nccl')}_RING_LL"
        return self.call(name, at, *values).kernel(at + 0.5, begin, took, kernel, 20)

    def close(self) -> Path:
        self.held.commit()
        self.held.close()
        return self.path


def ranks(folder: Path, count: int, fill) -> Path:
    """Reports of all ranks of a communicator."""
    for rank in range(count):
        report = Report(folder / f"job.{rank}.sqlite").call("ncclCommInitRankConfig", 0, WORLD, count, rank, 0)
        fill(report, rank)
        report.close()
    return folder / "job.0.sqlite"


def test_a_ring_carries_the_message_size_and_a_rank_computes_what_it_computed(tmp_path):
    """All-reduce of 4 MB on 8 ranks: 2 * 7 / 8 of it from each rank (Patarasuk, Yuan 2009); 160 us of computing with a pause of 10, 400 us beside the all-reduce, and 30 us behind it."""

    def fill(report: Report, rank: int) -> None:
        report.kernel(1, 1000, 100).kernel(2, 1110, 50).kernel(3, 1160, 400)
        report.nccl("ncclAllReduce", 900, 1160, 900, WORLD, 4_000_000, 0).kernel(4, 2060, 30)

    s = read_trace(ranks(tmp_path, 8, fill), 16)
    matched(s)
    assert (s.ranks, s.octets) == (8, 2 * 7 * 4_000_000)
    assert s.compute_ps.sum() == 8 * (160 + 400 + 30) * 10**6


def test_the_report_of_one_rank_is_that_of_all(tmp_path):
    report = Report(tmp_path / "one.sqlite").call("ncclCommInitRankConfig", 0, WORLD, 8, 3, 0)
    path = report.nccl("ncclAllReduce", 5, 10, 9, WORLD, 8000, 0).close()
    packed = tmp_path / "packed.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for one in (path, packed):
        s = read_trace(one, 16)
        assert (s.ranks, s.octets) == (8, 2 * 7 * 8000)
    here = Path(__file__).parents[3] / "examples" / "small.yaml"
    assert softib.simulate(here, path).simulated_us > 0


def test_the_gpus_of_the_report_are_those_of_the_nodes(tmp_path):
    """Sixteen ranks on two hosts of eight GPUs, by the table of the machine's GPUs."""

    def fill(report: Report, rank: int) -> None:
        report.held.execute("CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT)")
        for gpu in range(8):
            report.insert("TARGET_INFO_GPU", 0, gpu, "NVIDIA H200")
        report.nccl("ncclAllReduce", 5, 10, 9, WORLD, 100_000_000, 0)

    path, fabric = ranks(tmp_path, 16, fill), softib.generate("fat-tree", radix=4, levels=2, generation="NDR")
    run = softib.simulate(fabric, path)
    alone = softib.simulate(fabric, "nccl-all-reduce:100000000,machine=h200,hosts=0-1")
    assert run.simulated_us == pytest.approx(alone.simulated_us, rel=0.01)
    assert "8 GPUs H200" in " ".join(run.notes)


def test_a_root_is_a_number_in_its_communicator(tmp_path):
    """Root 1 of a communicator of ranks 0 and 2 is rank 2: it sends."""
    apart = 0xABCD

    def fill(report: Report, rank: int) -> None:
        if rank != 1:
            report.call("ncclCommInitRankConfig", 1, apart, 2, rank // 2, 0)
            report.nccl("ncclBroadcast", 5, 10, 9, apart, 1000, 1)
        else:
            report.kernel(5, 10, 9)

    s = read_trace(ranks(tmp_path, 3, fill))
    assert s.rank[s.kind == Kind.SEND].tolist() == [2]


def test_sizes_are_those_of_nccl_s_calls(tmp_path):
    """ncclAllGather's count is what each rank sends, ncclReduceScatter's what each receives: both move 3 / 4 of 4 parts from each of 4 ranks by a ring."""
    octets = []
    for name in ("ncclAllGather", "ncclReduceScatter"):
        folder = tmp_path / name
        folder.mkdir()
        values = (WORLD, 1000) if name == "ncclAllGather" else (WORLD, 1000, 0)
        octets.append(read_trace(ranks(folder, 4, lambda r, _, n=name, v=values: r.nccl(n, 5, 10, 9, *v))).octets)
    assert octets == [4 * 3 * 1000, 4 * 3 * 1000]


def test_groups_are_those_of_communicators(tmp_path):
    """Pairs 0 and 2, 1 and 3, whose communicators begin with the higher rank."""

    def fill(report: Report, rank: int) -> None:
        report.call("ncclCommInitRankConfig", 1, 5 + rank % 2, 2, 1 - rank // 2, 0)
        report.nccl("ncclAllReduce", 5, 10, 9, 5 + rank % 2, 1000, 0)

    s = read_trace(ranks(tmp_path, 4, fill))
    sends = s.kind == Kind.SEND
    assert set(zip(s.rank[sends].tolist(), s.peer[sends].tolist(), strict=True)) == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_a_group_of_calls_is_launched_together(tmp_path):
    """Sends and receives between ncclGroupStart and ncclGroupEnd have one kernel, behind all of them, and do not wait for each other: every rank sends to its neighbours at once."""

    def fill(report: Report, rank: int) -> None:
        for k, peer in enumerate(((rank + 1) % 4, (rank + 3) % 4)):
            report.call("ncclSend", 5 + k, WORLD, 5000, peer, took=0.1).call(
                "ncclRecv", 5.5 + k, WORLD, 5000, peer, took=0.1
            )
        report.kernel(8, 10, 9, "ncclDevKernel_SendRecv", 20).kernel(20, 30, 5)

    s = read_trace(ranks(tmp_path, 4, fill))
    matched(s)
    assert s.octets == 4 * 2 * 5000
    sends = np.flatnonzero(s.kind == Kind.SEND)
    assert len(sends) == 8
    assert s.compute_ps.sum() == 4 * (5 + 11) * 10**6


def test_a_communicator_of_one_rank_has_no_kernel(tmp_path):
    def fill(report: Report, rank: int) -> None:
        report.call("ncclCommInitRankConfig", 1, 99, 1, 0, 0).call("ncclAllReduce", 3, 99, 10, 0).kernel(4, 5, 3)
        report.nccl("ncclAllReduce", 6, 10, 9, WORLD, 1000, 0)

    assert read_trace(ranks(tmp_path, 2, fill)).octets == 2 * 1000


def two_gpus(r: Report) -> None:
    r.nccl("ncclAllReduce", 5, 10, 9, WORLD, 1000, 0).kernel(6, 9, 1, device=1)


def no_launch(r: Report) -> None:
    r.nccl("ncclAllReduce", 5, 10, 9, WORLD, 1000, 0).held.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME")


def no_call(r: Report) -> None:
    r.kernel(6, 9, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


HOSTILE = {
    "kernels of 2 GPUs": two_gpus,
    "has no launch": no_launch,
    "follows no call with a size": no_call,
    "1 of them a report": lambda r: r.call("ncclCommInitRankConfig", 1, 5, 4, 1, 0).nccl(
        "ncclAllReduce", 5, 10, 9, 5, 1000, 0
    ),
    "peer 9 of 8 ranks": lambda r: r.nccl("ncclSend", 5, 10, 9, WORLD, 1000, 9),
    "does not contain the initialisation": lambda r: r.nccl("ncclReduceScatter", 5, 10, 9, 1234, 1000, 0),
    "has no NCCL communicator ID": lambda r: (
        r.held.execute("DELETE FROM NVTX_PAYLOAD_SCHEMA_ENTRIES WHERE schemaId = 3 AND idx = 0"),
        r.nccl("ncclAllGather", 5, 10, 9, WORLD, 1000),
    ),
    "no such table: CUPTI_ACTIVITY_KIND_RUNTIME": lambda r: (
        r.kernel(1, 2, 3),
        r.held.execute("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME"),
    ),
    "not a report": lambda r: r.held.execute("UPDATE NVTX_EVENTS SET binaryData = 'ab'"),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_what_is_no_report_is_one_line_with_the_file(tmp_path, message):
    report = Report(tmp_path / "bad.sqlite").call("ncclCommInitRankConfig", 0, WORLD, 8, 0, 0)
    if message == "not a report":
        report.kernel(1, 2, 3)
    HOSTILE[message](report)
    with pytest.raises(InputError, match=message) as error:
        read_trace(report.close(), 16)
    assert str(error.value).startswith(str(tmp_path / "bad.sqlite")) and "\n" not in str(error.value)


@pytest.mark.parametrize("cut", [0, 100, 4000, 20000])
def test_cut_reports_are_one_line(tmp_path, cut):
    report = Report(tmp_path / "cut.sqlite").call("ncclCommInitRankConfig", 0, WORLD, 8, 0, 0)
    path = report.nccl("ncclAllReduce", 5, 10, 9, WORLD, 1000, 0).close()
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError) as error:
        read_trace(path, 16)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
