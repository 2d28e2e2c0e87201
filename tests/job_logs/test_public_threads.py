"""Lines that people posted, and what they mean. Oracle: the threads themselves (nccl#426, #902, #925, #1405, #1664, #1814;
nccl-tests#185; ucx#551, #5199, #6000, #6300, #7586, #9590; libfabric#5648, #7324, #7368; ompi#10693; LlamaFactory#7396), and mlx5's syndromes (rdma-core, providers/mlx5/cq.c)."""

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
    assert any(
        "ranks 2 ended their last one" in line
        for line in explain_failure(read(tmp_path, text), None, None).text_lines()
    )


REFUSED = "a1:46:86 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with"
GIDS = "on dev mlx5_2:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.2.0.11, remote GID ::ffff:10.2.0.15"
KEPT_LINES = {
    "of RoCE by UCX": (
        "[c001:311:0:311] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
        "not-infiniband",
    ),
    "of RoCE by NCCL": (
        f"a1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n{NCCL_426}",
        "not-infiniband",
    ),
    "address that has no route": (f"{REFUSED} error Network is unreachable", "gid-index"),
    "address of another namespace": (f"{REFUSED} error No such device", "gid-index"),
    "address that no one answers": (f"{REFUSED} 110 Connection timed out, {GIDS}", "not-infiniband"),
    "queue pairs beyond a limit": (
        "[1899678.6] mlx5_core 0000:5e:00.0: mlx5_cmd_check:824:(pid 46): CREATE_QP(0x500) op_mod(0x0) failed, status limits "
        "exceeded(0x8), syndrome (0x19c6d6)",
        "registration-limit",
    ),
    "queue pairs of libfabric": (
        "l:22:16:verbs:ep_ctrl:v():884<warn> rdma_create_qp: Cannot allocate memory (12)",
        "registration-limit",
    ),
    "completion queues of PSM3": (
        "n1:pid5.hello: Unable to create send CQ of size 5080 on mlx5_0: Cannot allocate memory",
        "registration-limit",
    ),
    "locked memory of Open MPI": (
        "The OpenFabrics (openib) BTL failed to initialize while trying to\nallocate some locked memory.  This typically",
        "registration-limit",
    ),
    "memory of Intel MPI": (
        "MPIDI_OFI_handle_cq_error(1008): OFI poll failed (ofi_events.h:1008:x:Cannot allocate memory)",
        "registration-limit",
    ),
    "link in a kernel's log": (
        f"[12034.1] mlx5_core 0000:3b:00.0 ib0: Link down\n{NCCL_426}",
        "cable-down",
    ),
}


@pytest.mark.parametrize(("text", "cause"), KEPT_LINES.values(), ids=KEPT_LINES)
def test_what_threads_found_comes_first(tmp_path, text, cause):
    log = read(tmp_path, text + "\n")
    assert causes(log)[0] == cause


def test_hosts_with_both_kinds_of_ports_are_not_taken_for_ethernet(tmp_path):
    log = read(tmp_path, f"a1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE\n{NCCL_426}")
    assert log.ethernet == "" and causes(log)[0] != "not-infiniband"


def test_a_report_of_a_link_makes_link_failures_likelier_without_being_sure(tmp_path):
    def failed(text):
        log = read(tmp_path, text)
        why = explain_failure(log, None, window_of(log))
        return sum(c.probability for c in why.causes if c.code in ("cable-down", "flapping"))

    without = failed(NCCL_426)
    assert (
        without
        < 0.4
        < failed(f"[12034.1] mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged\n{NCCL_426}")
        < 0.8
    )


def test_a_warning_of_open_mpi_about_openib_names_no_fault_of_an_adapter(tmp_path):
    """ompi#10693: the job ran well, over UCX."""
    log = read(
        tmp_path,
        "WARNING: There was an error initializing an OpenFabrics device.\n\n  Local host:   lx39\n  Local device: mlx5_0\n",
    )
    why = explain_failure(log, None, window_of(log))
    assert why.causes[0].code in ("nothing", "tcp-fallback") and why.causes[0].probability < 0.7


def test_an_error_of_intel_mpi_that_names_no_cause_leaves_all_open(tmp_path):
    text = (
        "Abort(806969615) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Waitall: Other MPI error, error stack:\n"
        "MPIDI_OFI_handle_cq_error(1042): OFI poll failed (ofi_events.h:1042:MPIDI_OFI_handle_cq_error:Input/output error)\n"
    )
    log = read(tmp_path, text)
    assert [e.symptom for e in log.events] == ["completion-error", "aborted"]
    assert explain_failure(log, None, window_of(log)).causes[0].probability < 0.4


LABELS = {
    "srun --label": "12: ",
    "pdsh": "host-0010: ",
    "mpirun --tag-output": "[1,3]<stderr>:",
    "a time": "2026-11-26 10:00:00 ",
    "Kubernetes": "2026-11-26T10:00:00.123Z stdout F ",
    "compose": "worker-0 | ",
    "Ray": "(RayActor pid=1234) ",
    "a colour": "\x1b[31m",
    "srun and torchrun": "0: [default3]:",
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_labels_and_times_of_launchers_hide_no_error(tmp_path, label):
    path = tmp_path / "log"
    path.write_text(label + NCCL_1664)
    (event,) = read_logs([path]).events
    assert (event.symptom, event.local.host) == ("retry-exceeded", "node-a")
    assert (event.first_s is not None) == ("2026" in label)


def test_an_error_of_nccl_without_its_host_is_one(tmp_path):
    path = tmp_path / "log"
    path.write_text(NCCL_1664[NCCL_1664.index("NCCL WARN") :])
    (event,) = read_logs([path]).events
    assert (event.symptom, event.local.host) == ("retry-exceeded", "")
