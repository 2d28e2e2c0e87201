"""Lines that name what failed. Oracle: the lines themselves, of srun and UCX 1.13; what was planted (bench/why_stories/unread.py)."""

from __future__ import annotations

import gzip

import softib
from softib.analysis.jobs.failure import explain_failure
from softib.diags.job_causes.site import site_of
from softib.job_logs.read import read_logs
from tests.analysis.jobs.recorded_stories import pod


def explained(tmp_path, **logs):
    for name, text in logs.items():
        (tmp_path / f"{name}.log").write_text(text)
    site = site_of(pod(), None, True)
    return explain_failure(read_logs(sorted(tmp_path.glob("*.log"))), site, None, ["host-0005", "host-0009"])


def test_the_node_that_the_scheduler_names_is_accused_though_it_printed_an_error_first(tmp_path):
    f = pod()
    lids = {f.node_name(n): int(f.lid[f.node_base[n] + 1]) for n in range(f.sizes.nodes) if f.is_host[n]}
    client = (
        f" local address: LID {lids['host-0009']:#04x} QPN 0x018d PSN 0xa27e26 RKey 0x004039 VAddr 0x007f8763d9c000\n"
        f" remote address: LID {lids['host-0005']:#04x} QPN 0x018c PSN 0xece4d6 RKey 0x000138 VAddr 0x007f4234a89000\n"
        " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x0\n"
    )
    causes = explained(tmp_path, client=client, slurm="srun: error: Node failure on host-0009\n").causes
    assert causes[0].code == "host-dead" and causes[0].where[0].where == "host-0009"
    assert causes[0].where[0].probability > 20 * sum(w.probability for w in causes[0].where[1:])


UNREACHABLE = """\
[1795715799.539561] [vm:23512:0]     ucp_context.c:1849 UCX  INFO  Version 1.13.1 (loaded from /lib/x86_64-linux-gnu/libucp.so.0)
[1795715799.614413] [vm:23512:0]          parser.c:1916 UCX  INFO  UCX_* env variables: UCX_TLS={tls} UCX_NET_DEVICES=mlx5_0:1 UCX_LOG_LEVEL=info
[1795715799.615382] [vm:23512:0]          select.c:549  UCX  ERROR   no active messages transport to <no debug data>: self/memory0 - Destination is unreachable
[1795715799.615403] [vm:23512:0]         libperf.c:1080 UCX  ERROR ucp_ep_create() failed: Destination is unreachable
"""


def test_transports_without_infiniband_are_the_configuration_not_a_missing_adapter(tmp_path):
    assert explained(tmp_path, job=UNREACHABLE.format(tls="tcp,self")).causes[0].code == "tcp-fallback"
    other = explained(tmp_path, job=UNREACHABLE.format(tls="rc,self")).causes
    assert other[0].code in ("no-device", "port-down") and other[0].probability < 0.8


def test_a_fabric_without_the_ends_of_the_log_is_not_accused(tmp_path):
    """GIDs of another fabric: a cable that failed in this one at that time is no cause."""
    tree = softib.generate("fat-tree", radix=4, levels=2)
    path = tmp_path / "job.log"
    path.write_text(
        "node-1:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<44312> with status=12 "
        "opcode=0 len=0 vendor err 129 (Recv) localGid fe80::dead:beef:0:1501 remoteGid fe80::dead:beef:0:1801 hca mlx5_0\n"
    )
    result = softib.why(path, fabric=tree)
    assert not any(c.where for c in result.causes)
    assert any("no port that the logs name is in this fabric" in n for n in result.notes)
    assert result.causes[0].probability < 0.5


def test_a_truncated_log_is_noted(tmp_path):
    packed = gzip.compress(b"".join(b"step %d %d\n" % (n, n * n) for n in range(100_000)))
    path = tmp_path / "job.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert any("job.log.gz" in n for n in softib.why(path).notes)


def test_the_hosts_of_a_job_leave_out_the_errors_of_another_in_its_log(tmp_path):
    """One log of two jobs without labels: UCX names hosts and device in its lines. The other job's registration limit is nearer to a
    cause than a lost packet."""
    lost = (
        "[1795715799.539561] [host-0005:23512:0] ib_mlx5_log.c:177  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 "
        "vend 0x81 hw_synd 0/0)\n"
    )
    other = "[1795715799.539561] [host-0021:11:0] ib_mlx5_log.c:177  UCX  ERROR RNR on mlx5_0:1/IB (synd 0x16 vend 0x82 hw_synd 0/0)\n"
    (tmp_path / "job.log").write_text(other + lost)
    site = site_of(pod(), None, True)
    log = read_logs([tmp_path / "job.log"])
    for where in (site, None):
        both = explain_failure(log, where, None)
        mine = explain_failure(log, where, None, ["host-0005", "host-0009"])
        theirs = explain_failure(log, where, None, ["host-0021.site.example", "HOST-0022"])
        assert (both.symptom, mine.symptom, theirs.symptom) == (
            "receiver-not-ready",
            "retry-exceeded",
            "receiver-not-ready",
        )
        assert "1 error of hosts outside the job is left out" in mine.notes and len(mine.symptoms) == 1
    assert mine.causes[0].code != "receiver-not-ready"


def test_connections_of_one_log_that_its_errors_do_not_name_are_said(tmp_path):
    text = "".join(
        f" local address: LID {a:#04x} QPN 0x1 PSN 0x1\n remote address: LID {b:#04x} QPN 0x1 PSN 0x1\n"
        for a, b in ((3, 9), (4, 8))
    )
    (tmp_path / "job.log").write_text(text + "SLURM_JOB_ID=7\nSLURM_JOB_ID=8\n Failed status 12: wr_id 0 syndrom 0x0\n")
    notes = explain_failure(read_logs([tmp_path / "job.log"]), None, None).notes
    assert (
        "2 connections, and errors without a connection: if they belong to several jobs, use the log of each job separately"
        in notes
    )
    assert "the logs belong to several jobs, 7, 8; use --hosts with the hosts of one job" in notes
