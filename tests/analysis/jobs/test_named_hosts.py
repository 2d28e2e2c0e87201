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
    assert any("no end that the logs name is in this fabric" in n for n in result.notes)
    assert result.causes[0].probability < 0.5


def test_a_truncated_log_is_noted(tmp_path):
    packed = gzip.compress(b"".join(b"step %d %d\n" % (n, n * n) for n in range(100_000)))
    path = tmp_path / "job.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert any("job.log.gz" in n for n in softib.why(path).notes)
