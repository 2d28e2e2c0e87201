"""Thirty-two logs in the formats of public threads, written by an author who had not read the rules of ``softib why``: ``python -m bench.why_stories.published``.

Logs alone, without a fabric: what a thread begins with. Hosts, numbers and addresses are made up. ``right``: causes that may come first; ``never_sure``:
causes that the log cannot prove, so that 80 % for one of them is wrong. Change one only to play it, never to be answered.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import softib

SURE = 0.8


@dataclass(frozen=True)
class Published:
    """One log."""

    name: str
    log: str
    right: frozenset[str]
    never_sure: frozenset[str]


STORIES: list[Published] = []


def story(name: str, log: str, right: set[str], never_sure: set[str] | None = None) -> None:
    STORIES.append(Published(name, log, frozenset(right), frozenset(never_sure or ())))


CABLE = {
    "cable-down",
    "bit-errors",
    "flapping",
    "slow-receiver",
    "host-dead",
    "switch-dead",
    "port-down",
    "device-fault",
}

story(
    "ucx-dc-many-ranks-one-lid",
    "\n".join(
        f"[node{n:02d}:{4000 + r}:0:{4000 + r}] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n[node{n:02d}:{4000 + r}:0:{4000 + r}] ib_mlx5_log.c:177  DCI QP 0x{0xA00 + r:x} wqe[{r * 7}]: SEND s-e [rqpn 0x{0xB00 + r:x} rlid 703] [inl len 18]"
        for n in (1, 2, 3)
        for r in range(4)
    ),
    CABLE | {"unknown", "process-died"},
    CABLE,
)
story(
    "ucx-roce",
    "[compute001:31180:0:31180] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n[compute001:31180:0:31180] ib_mlx5_log.c:143  DCI QP 0x14e4 wqe[0]: SEND s-e [rqpn 0x2248a rmac 50:6b:4b:cb:be:01 sgix 0 dgid fe80::526b:4bff:fecb:be01 tc 0] [inl len 18]\n",
    {"not-infiniband"},
    CABLE,
)
story(
    "ucx-old-fatal",
    "[ast0815:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND\n==== backtrace ====\n0 0x000000000002cf1c uct_ib_mlx5_completion_with_err()  /x/ib_mlx5_log.c:112\n",
    CABLE | {"unknown", "process-died"},
    CABLE,
)
story(
    "nccl-acs-loclprot",
    "\n".join(
        f"H100-{h}:19989:20082 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer fe80::966d:ae03:8b:df{50 + h}%ib0<5324{h}> with error 4, opcode 32564, len 32564, vendor err 81 (Send)\nH100-{h}:19989:20082 [1] NCCL INFO transport/net.cc:1008 -> 6"
        for h in (1, 2, 5)
    ),
    {"application-error", "gpu-fault", "unknown"},
    CABLE,
)
story(
    "nccl-gdr-flush-only",
    "\n".join(
        "gh-3714u15:7038:7053 [0] ib_plugin.c:1007 NCCL WARN NET/IB : Got completion from peer 10.1.32.3<54891> with error 5, opcode 0, len 0, vendor err 249\ngh-3714u15:7038:7053 [0] NCCL INFO transport/net.cc:1117 -> 6"
        for _ in range(4)
    ),
    {"unknown", "process-died", "application-error", "hang"} | CABLE,
    CABLE | {"process-died"},
)
story(
    "nccl-ula-gid-roce",
    "kp-ddp-worker-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00:1148:9000:5000:4:200:3:ff22 remoteGidsfd00:1148:9000:5000:4:200:3:ff1f\nkp-ddp-worker-0:3468:3905 [4] NCCL INFO transport/net.cc:1302 -> 6\n",
    {"not-infiniband", "unknown"} | CABLE,
    CABLE,
)
story(
    "nccl-modify-qp-unreachable",
    "dgxh-4:460770:460869 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable\ndgxh-4:460770:460869 [0] NCCL INFO transport/net_ib.cc:597 -> 2\ndgxh-4:460770:460869 [0] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from 11.1.128.128<52035> failed : Connection reset by peer\n",
    {"gid-index"},
    CABLE,
)
story(
    "nccl-modify-qp-nodev",
    "resnet-p-worker-0:195626:198800 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error No such device\nresnet-p-worker-0:195626:198800 [0] NCCL INFO transport/net_ib.cc:597 -> 2\n",
    {"gid-index", "no-device"},
    CABLE,
)
story(
    "nccl-modify-qp-timeout",
    "w1:88:157 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.2.0.11, remote GID ::ffff:10.2.0.15\n",
    {"not-infiniband"},
    CABLE,
)
story(
    "mlx5-fw-irisc",
    "[198542.853543] mlx5_core 0000:5e:00.0: device's health compromised - reached miss count\n[198542.861625] mlx5_core 0000:5e:00.0: assert_var[0] 0x00000001\n[198542.902895] mlx5_core 0000:5e:00.0: fw_ver 20.26.4012\n[198542.918249] mlx5_core 0000:5e:00.0: synd 0x7: irisc not responding\n[198542.924637] mlx5_core 0000:5e:00.0: ext_synd 0x40d0\n",
    {"device-fault"},
)
story(
    "mlx5-create-qp-limits",
    "libfabric:22102:1638393161:verbs:ep_ctrl:vrb_ep_enable():884<warn> rdma_create_qp: Cannot allocate memory (12)\nlibfabric:22102:1638393161:ofi_rxm:ep_ctrl:rxm_open_conn():140<warn> fi_enableCannot allocate memory (-12)\n[1899678.679848] mlx5_core 0000:5e:00.0: mlx5_cmd_check:824:(pid 46096): CREATE_QP(0x500) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x19c6d6)\n",
    {"registration-limit"},
    CABLE | {"device-fault"},
)
story(
    "ucx-create-cq",
    "[1548304905.378218] [mpi11:4770 :0]       ib_iface.c:690  UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n[mpi11:04770] pml_ucx.c:212 Error: Failed to create UCP worker\n",
    {"registration-limit"},
    CABLE,
)
story(
    "ompi-openfabrics-warning-harmless",
    "--------------------------------------------------------------------------\nBy default, for Open MPI 4.0 and later, infiniband ports on a device\nare not used by default.  The intent is to use UCX for these devices.\nYou can override this policy by setting the btl_openib_allow_ib MCA parameter\nto true.\n\n  Local host:              lx1039\n  Local adapter:           mlx5_0\n  Local port:              1\n\n--------------------------------------------------------------------------\n--------------------------------------------------------------------------\nWARNING: There was an error initializing an OpenFabrics device.\n\n  Local host:   lx1039\n  Local device: mlx5_0\n--------------------------------------------------------------------------\n total energy -102.3\n",
    {"tcp-fallback", "nothing", "unknown"},
    CABLE | {"device-fault", "registration-limit", "no-device"},
)
story(
    "ompi-memlock",
    '--------------------------------------------------------------------------\nThe OpenFabrics (openib) BTL failed to initialize while trying to\nallocate some locked memory.  This typically can indicate that the\nmemlock limits are set too low.  For most HPC installations, the\nmemlock limits should be set to "unlimited".\n\n  Local host:    c001\n  OMPI source:   btl_openib_component.c:1237\n  Function:      ompi_free_list_init_ex_new()\n  Device:        mlx4_0\n  Memlock limit: 65536\n',
    {"registration-limit"},
)
story(
    "psm3-cq",
    "n1.cluster:pid502724.hello_world: Unable to create send CQ of size 5080 on mlx5_0: Cannot allocate memory\nn1.cluster:pid502724.hello_world: Unable to initialize verbs\nn1.cluster:pid502724: PSM3 can't open nic unit: 0 (err=23)\n",
    {"registration-limit"},
    CABLE,
)
story(
    "intel-mpi-cq-error",
    "Abort(1681039) on node 18 (rank 18 in comm 0): Fatal error in PMPI_Iprobe: Other MPI error, error stack:\nPMPI_Iprobe(119)...............: MPI_Iprobe(src=39, tag=820, MPI_COMM_WORLD, flag=0x7ffe34a5f8dc, status=0x7ffe34a5f920) failed\nMPIDI_OFI_handle_cq_error(1008): OFI poll failed (ofi_events.h:1008:MPIDI_OFI_handle_cq_error:Cannot allocate memory)\n",
    {"registration-limit", "unknown", "application-error"},
    CABLE,
)
story(
    "intel-mpi-cq-io-error",
    "Abort(806969615) on node 3 (rank 3 in comm 0): Fatal error in PMPI_Waitall: Other MPI error, error stack:\nPMPI_Waitall(352)..............: MPI_Waitall(count=2, req_array=0x1, status_array=0x1) failed\nMPIDI_OFI_handle_cq_error(1042): OFI poll failed (ofi_events.h:1042:MPIDI_OFI_handle_cq_error:Input/output error)\n",
    {"unknown", "process-died"} | CABLE,
    CABLE,
)
story(
    "libfabric-verbs-retry",
    "libfabric:3121:1700000000:core:verbs:cq:vrb_report_wc():??<warn> vendor error: 129 transport retry counter exceeded\nlibfabric:3121:verbs:cq:fi_ibv_poll_cq():512<warn> completion status: transport retry counter exceeded\n",
    CABLE | {"unknown", "process-died"},
    CABLE,
)
story(
    "torch-watchdog",
    "[rank5]:[E1126 03:14:15.123456789 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=10234, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n[rank5]:[E1126 03:14:15.2 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 5] Exception (either an error or timeout) detected by watchdog at work: 10234, last enqueued NCCL work: 10236, last completed NCCL work: 10233.\n",
    {"hang"},
    CABLE,
)
story(
    "torch-mismatch",
    "[rank0]:[E1126 03:14:15.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n[rank3]:[E1126 03:14:15.4 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=BROADCAST, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n",
    {"application-error", "hang"},
    CABLE,
)
story(
    "cuda-ecc-then-nccl",
    "[ 9051.2] NVRM: Xid (PCI:0000:3b:00): 94, pid=3312, Contained: SM (0x1). RST: No, D-RST: No\nn7:3312:3400 [2] include/alloc.h:178 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\nn7:3312:3400 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.8<40312> with error 5, opcode 0, len 0, vendor err 249 (Recv)\n",
    {"gpu-fault"},
    CABLE,
)
story(
    "oom-killer",
    "Nov 26 03:14:10 n12 kernel: Out of memory: Killed process 88123 (python3) total-vm:912345678kB, anon-rss:512345678kB, file-rss:0kB, shmem-rss:1024kB, UID:1001 pgtables:1024kB oom_score_adj:0\nn3:88000:88100 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n12<41234>\nn3:88000:88100 [0] NCCL INFO proxy.cc:1486 -> 6\n",
    {"process-died"},
    CABLE,
)
story(
    "slurm-node-fail",
    "slurmstepd: error: *** STEP 4242.0 ON n001 CANCELLED AT 2026-11-26T03:14:15 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\nsrun: error: Node failure on n007\nn003:100:200 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<40312> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n",
    {"host-dead"},
)
story(
    "slurm-time-limit",
    "slurmstepd: error: *** JOB 4242 ON n001 CANCELLED AT 2026-11-26T03:14:15 DUE TO TIME LIMIT ***\nn003:100:200 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n007<41234>\n",
    {"process-died"},
    CABLE,
)
story(
    "mlx5-link-down-dmesg",
    "[12034.1] mlx5_core 0000:3b:00.0 ib0: Link down\n[12041.7] mlx5_core 0000:3b:00.0 ib0: Link up\nn4:700:810 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<40312> with error 12, opcode 1, len 0, vendor err 129 (Send)\n",
    {"flapping", "cable-down", "port-down"},
)
story(
    "mlx5-port-event-cable-unplugged",
    "[2213.5] mlx5_core 0000:ca:00.0: Port module event: module 0, Cable unplugged\n[2213.6] mlx5_core 0000:ca:00.0: mlx5_ib: port 1 event: PORT_ERR\nn9:12:30 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40001> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n",
    {"cable-down", "port-down"},
)
story(
    "nccl-ib-disabled-net-socket",
    "a1:1:2 [0] NCCL INFO NET/IB : No device found.\na1:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.1.1<0>\na1:1:2 [0] NCCL INFO Using network Socket\n# all_reduce 8G busbw 0.9 GB/s\n",
    {"tcp-fallback"},
    CABLE,
)
story(
    "nccl-mixed-pkey",
    "b1:9:9 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.3<40001> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::a288:c203:ab:1000 remoteGidsfe80::a288:c203:ab:2000\nb1:9:9 [0] NCCL INFO NCCL_IB_PKEY set by environment to 3.\n",
    CABLE | {"unknown", "pkeys-apart", "partition-missing", "partition"},
    CABLE,
)
story(
    "perftest-rnr",
    " Completion with error at client\n Failed status 13: wr_id 0 syndrom 0x87\nscnt=128, ccnt=0\n",
    {"receiver-not-ready"},
    CABLE,
)
story(
    "perftest-mtu",
    "Couldn't get device attributes\n Requested mtu is higher than active mtu \n Failed to parse parameter.\n",
    {"mtu", "mtu-refused", "application-error"},
    CABLE,
)
story(
    "mooncake-handshake",
    "E1126 03:14:15.123456 40123 rdma_endpoint.cpp:455] [Handshake] Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: Invalid argument [22]\nE1126 03:14:15.2 40123 worker_pool.cpp:300] Failed to establish connection\n",
    {"gid-index", "connect-failed", "unknown", "mtu", "application-error"},
    CABLE,
)
story(
    "healthy-nccl",
    "c1:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\nc1:10:20 [0] NCCL INFO Connected all rings\nc1:10:20 [0] NCCL INFO comm 0x5581 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE\nc1:10:20 [0] NCCL INFO comm 0x5581 rank 0 nranks 16 cudaDev 0 busId 1b000 - Destroy COMPLETE\n",
    {"nothing"},
    CABLE,
)


def main() -> int:
    """Print what is named for each, and the sums; 1 where a wrong cause is sure."""
    first = three = sure = 0
    with tempfile.TemporaryDirectory() as folder:
        for one in STORIES:
            path = Path(folder) / f"{one.name}.log"
            path.write_text(one.log)
            causes = [(c["code"], c["probability"]) for c in softib.why(path).to_json()["causes"]]
            rank = next((i for i, (code, _) in enumerate(causes, 1) if code in one.right), 0)
            code, probability = causes[0]
            wrong = probability >= SURE and (code in one.never_sure or code not in one.right)
            first, three, sure = first + (rank == 1), three + (1 <= rank <= 3), sure + wrong
            print(f"{one.name:36} {rank or '-':>2}  {code} {probability:.2f}{'  SURE AND WRONG' if wrong else ''}")
    print(f"{len(STORIES)} logs: right cause first {first}, among three {three}, sure and wrong {sure}")
    return 1 if sure else 0


if __name__ == "__main__":
    sys.exit(main())
