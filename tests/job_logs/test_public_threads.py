"""Lines that people posted, and what they mean. Oracle: the threads themselves (nccl#426, #902, #1405, #1664, #1814; ucx#5199, #7586,
#9590; LlamaFactory#7396), and mlx5's syndromes (rdma-core, providers/mlx5/cq.c)."""

from __future__ import annotations

import pytest

from softib.analysis.jobs.failure import explain_failure, window_of
from softib.job_logs.read import read_logs

NCCL_1814 = """\
hostname-test:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=12 opcode=129 \
len=65536 vendor err 129 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221
hostname-test:984:1357 [4] NCCL INFO transport/net.cc:1298 -> 6
hostname-test:984:1357 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=5 opcode=32656 \
len=32659 vendor err 249 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221
"""
NCCL_1405 = """\
kp-ddp-worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> with status=12 opcode=0 \
len=0 vendor err 129 (Recv) localGid fd00:1148:9000:5000:4:200:3:ff22 remoteGidsfd00:1148:9000:5000:4:200:3:ff1f
"""
NCCL_1664 = (
    "node-a:11:12 [0] NCCL WARN NET/IB : Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 "
    "vendor err 129 (Send)\n"
)
NCCL_426 = (
    "machine-17:20109:20180 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n"
)
UCX_5199 = """\
[master:19546:0:19546] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)
[master:19546:0:19546] ib_mlx5_log.c:139  DCI QP 0xa9f wqe[0]: SEND s-e [rqpn 0xa66 rlid 703] [inl len 18]
"""
UCX_2973 = (
    "[ast1815:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: Transport retry count exceeded "
    "(synd 0x15 vend 0x81) opcode SEND\n"
)
WATCHDOG = """\
[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds \
before timing out.
[rank{rank}]:[E321 02:07:08.465150152 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] Exception (either an error or timeout) detected by \
watchdog at work: {seq}, last enqueued NCCL work: {begun}, last completed NCCL work: {ended}.
"""


def read(tmp_path, text):
    path = tmp_path / "job.log"
    path.write_text(text)
    return read_logs([path])


def causes(log):
    return [c.code for c in explain_failure(log, None, window_of(log)).causes]


def test_status_12_with_addresses_of_ethernet_is_no_infiniband(tmp_path):
    log = read(tmp_path, NCCL_1814)
    assert [(e.symptom, e.detail) for e in log.events] == [("retry-exceeded", "129"), ("flushed", "249")]
    first = log.events[0]
    assert (first.local.host, first.local.gid, first.remote.gid) == (
        "hostname-test",
        "::ffff:1d57:58b6",
        "::ffff:1d57:4dd",
    )
    found = explain_failure(log, None, window_of(log))
    assert found.causes[0].code == "not-infiniband" and found.causes[0].probability > 0.9
    assert any("Ethernet (RoCE)" in n for n in found.notes)


@pytest.mark.parametrize("text", [NCCL_1664, NCCL_426])
def test_status_12_without_gids_is_answered_with_what_is_missing(tmp_path, text):
    found = explain_failure(log := read(tmp_path, text), None, window_of(log))
    assert found.symptom == "retry-exceeded" and found.causes[0].probability < 0.5
    assert any("NCCL_DEBUG=INFO" in n for n in found.notes)


def test_gids_of_an_address_plan_are_read(tmp_path):
    (event,) = read(tmp_path, NCCL_1405).events
    assert event.local.gid == "fd00:1148:9000:5000:4:200:3:ff22" and event.remote.gid.endswith("ff1f")


def test_the_line_below_names_the_remote_lid(tmp_path):
    (event,) = read(tmp_path, UCX_5199).events
    assert (event.symptom, event.local.host, event.local.device, event.remote.lid) == (
        "retry-exceeded",
        "master",
        "mlx5_0:1",
        703,
    )


def test_an_older_order_of_the_same_words(tmp_path):
    (event,) = read(tmp_path, UCX_2973).events
    assert (event.symptom, event.local.host, event.local.device) == ("retry-exceeded", "ast1815", "mlx5_3:1")


def test_ranks_that_all_began_a_collective_wait_for_the_network(tmp_path):
    text = "".join(WATCHDOG.format(rank=r, seq=1580, begun=1582, ended=1579) for r in range(4))
    assert read(tmp_path, text).events[0].symptom == "collective-stuck"


def test_the_rank_that_did_not_begin_is_behind(tmp_path):
    text = "".join(WATCHDOG.format(rank=r, seq=1580, begun=1580, ended=1579) for r in (0, 1, 3))
    text += (
        "[rank2]:[E321 02:07:09.1 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 2] Exception (either an error or timeout) detected by watchdog "
        "at work: 1579, last enqueued NCCL work: 1579, last completed NCCL work: 1579.\n"
    )
    first = read(tmp_path, text).events[0]
    assert (first.symptom, first.detail) == ("rank-behind", "ranks 2")
    assert causes(read(tmp_path, text))[0] == "hang"
