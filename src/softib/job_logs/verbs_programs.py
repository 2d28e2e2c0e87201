"""The readers for lines of programs that use verbs: perftest, the pingpongs of libibverbs, UCX, Open MPI and any
program that prints ``ibv_wc_status_str``."""

from __future__ import annotations

from softib.job_logs.patterns import Reader, pattern

__all__ = ["MPI", "PERFTEST", "UCX", "VERBS"]

PERFTEST = Reader(
    "perftest",
    (
        pattern("Failed status", r"^ ?Failed status (?P<status>\d+): wr_id \d+ syndrom 0x(?P<detail>[0-9a-f]+)"),
        pattern("address:", r"^ local address: +LID 0?x?(?P<lid>[0-9a-fA-Fx]+) QPN", pair=True),
        pattern("address:", r"^ remote address: +LID 0?x?(?P<rlid>[0-9a-fA-Fx]+) QPN", pair=True),
        pattern("GID:", r"^ +GID: (?P<dgid>[\d:a-fA-F]+)$", pair=True),
        # The header of the results, and the rule below them (87 dashes; other programs print fewer). A rule right after
        # the header begins the output of the next program.
        pattern("#bytes", r"^ ?#bytes +#iterations", starts=True),
        pattern("-" * 80, r"^-{80,}$", ends=2),
        # perftest's TCP connection, over which both ends exchange addresses and reports
        pattern("Couldn't read re", r"Couldn't read (?:remote address|reports)", "peer-lost"),
        pattern("socket/rdma_cm", r"Unable to (?:read|write) (?:from|to) socket/rdma_cm", "peer-lost"),
        pattern("between server and client", r"Failed to exchange data between server and client", "peer-lost"),
        pattern("Couldn't allocate MR", r"Couldn't allocate MR", "registration-failed"),
        pattern("Port number", r"Port number \d+ state is (?P<detail>Down|Init|Armed)", "port-not-active"),
        pattern("mtu is higher than", r"mtu is higher than active mtu", "mtu-refused"),
        pattern("Failed to modify", r"Failed to modify QP to RTR|Failed to modify QP \d+ to RTR", "connect-failed"),
        pattern(
            "IB device", r"^ ?(?:Unable to find the IB|IB device \S+ not found|Did not detect devices)", "no-device"
        ),
    ),
)

VERBS = Reader(
    "verbs",
    (
        pattern("Failed status", r"Failed status [\w ]+ \((?P<status>\d+)\) for wr_id"),
        pattern(
            "address:",
            r"^ +local address: +LID 0x(?P<lid>[0-9a-f]+), QPN 0x[0-9a-f]+, PSN 0x[0-9a-f]+, GID (?P<gid>[0-9a-f:.]+)",
            pair=True,
        ),
        pattern(
            "address:",
            r"^ +remote address: +LID 0x(?P<rlid>[0-9a-f]+), QPN 0x[0-9a-f]+, PSN 0x[0-9a-f]+, GID "
            r"(?P<rgid>[0-9a-f:.]+)",
            pair=True,
            starts=True,
        ),
        pattern("Mbit/sec", r"^\d+ bytes in [\d.]+ seconds = [\d.]+ Mbit/sec", ends=1),
        pattern("slid", r"\bslid (?P<lid_decimal>\d+) dlid (?P<rlid_decimal>\d+)", pair=True),
        pattern("Gid index should be", r"Gid index should be between", "gid-missing"),
        pattern("can't read sgid", r"can't read sgid of index (?P<detail>\d+)", "gid-missing"),
        pattern("to RTR", r"[Ff]ailed to modify QP to RTR", "connect-failed"),
        pattern("No IB devices found", r"No IB devices found|IB device \S+ not found", "no-device"),
        pattern("register", r"(?:Couldn't|Failed to) register (?:MR|memory)", "registration-failed"),
        pattern("ibv_reg_mr", r"ibv_reg_mr.*: Cannot allocate memory", "registration-failed"),
        pattern(
            "Cannot allocate memory",
            r"(?:(?:ibv|rdma)_create_\w+|Unable to create \w+ CQ).*Cannot allocate memory",
            "registration-failed",
        ),
        pattern("rdma_connect", r"rdma_(?:connect|resolve_route|resolve_addr)\b.*: (?P<detail>.+)", "connect-failed"),
        pattern(
            "RDMA_CM_EVENT_", r"RDMA_CM_EVENT_(?P<detail>UNREACHABLE|REJECTED|ROUTE_ERROR|ADDR_ERROR)", "connect-failed"
        ),
        pattern("retry counter exceeded", r"transport retry counter exceeded", "retry-exceeded"),
        pattern("RNR retry counter", r"RNR retry counter exceeded", "receiver-not-ready"),
        pattern("remote access error", r"remote access error", "remote-access"),
        pattern("remote invalid request", r"remote invalid request error", "invalid-request"),
        pattern("remote operation error", r"remote operation error", "remote-operation"),
        pattern("local protection error", r"local protection error", "local-protection"),
        pattern("local length error", r"local length error", "local-length"),
        pattern("Flushed Error", r"Work Request Flushed Error", "flushed"),
    ),
)

_UCX_HOST = r"\[(?P<host>[\w.-]+):\d+ *:\d+"

UCX = Reader(
    "UCX",
    (
        pattern(
            "synd 0x",
            rf"{_UCX_HOST}.*? on (?P<dev>[\w-]+:\d+)(?:/\w+)?.*?\(synd 0x(?P<synd>[0-9a-f]+) vend 0x"
            rf"(?P<detail>[0-9a-f]+)",
        ),
        pattern(
            "send completion with error",
            rf"{_UCX_HOST}.*send completion with error: (?P<statustext>[\w ]+) \[",
        ),
        pattern("[rqpn 0x", r"\[rqpn 0x[0-9a-f]+ (?:rlid |dlid=)(?P<rlid_decimal>\d+)", continues=True),
        pattern("Endpoint timeout", rf"{_UCX_HOST}.*(?:Endpoint timeout|endpoint .*timed out)", "retry-exceeded"),
        pattern("Destination is unreachable", r"(?P<detail>Destination is unreachable)", "no-transport"),
        pattern("is not available", r"network device '(?P<dev>[\w:-]+)' is not available", "no-device"),
        pattern("ibv_reg_mr", r"UCX +ERROR.*ibv_reg_mr.*: (?P<detail>.*)", "registration-failed"),
        pattern("ibv_create_cq", r"ibv_create_cq.*: Cannot allocate memory", "registration-failed"),
        pattern("ibv_modify_qp", r"UCX +ERROR.*ibv_modify_qp.*failed", "connect-failed"),
        pattern("ep_cfg[", r"UCX +INFO.*ep_cfg\[\d+\]: \w+\((?P<detail>tcp/[^)]*)\)", "tcp-used"),
        pattern("ep_cfg[", r"UCX +INFO.*ep_cfg\[\d+\]: .*?\btcp/(?P<detail>\w+)", "tcp-used"),
        pattern("Connection reset by remote", r"Connection reset by remote peer", "peer-lost"),
        pattern("Caught signal", rf"{_UCX_HOST}\] Caught signal (?P<detail>\d+)", "process-died"),
        # the client of ucx_perftest: the header of its results, and the last row
        pattern("Stage ", r"^\| +Stage +\| # iterations", starts=True),
        pattern("Final:", r"^Final: +\d+ +[\d.]+ +[\d.]+ ", ends=1),
        pattern("UCX_TLS=", r"env variables:.*\bUCX_TLS=(?P<detail>tcp[\w,]*)", "tcp-used"),
    ),
)

MPI = Reader(
    "Open MPI",
    (
        pattern(
            "exited on signal",
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>[\w.-]+) exited on signal (?P<detail>\d+)",
            "process-died",
        ),
        pattern("Signal: ", r"^\[(?P<host>[\w.-]+):\d+\] Signal: .*\((?P<detail>\d+)\)", "process-died"),
        pattern(
            "EXIT CODE",
            r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<detail>\d+)\)",
            "process-died",
        ),
        pattern("Exit code:", r"Exit code: +(?P<detail>1(?:3[0-9]|4[0-3]))$", "process-died"),
        pattern("Exit code:", r"Exit code: +(?P<detail>[1-9]\d*)$", "aborted"),
        pattern("time limit for job execution", r"time limit for job execution has been reached", "time-limit"),
        pattern("RETRY EXCEEDED", r"RETRY EXCEEDED ERROR.*status number (?P<status>\d+)"),
        pattern("retry count between two MPI", r"InfiniBand retry count between two", "retry-exceeded"),
        pattern("receiver not ready", r'"receiver not ready" retry count', "receiver-not-ready"),
        pattern("Local host:", r"^ +Local host: +(?P<host>[\w.-]+)", continues=True),
        pattern("Local device:", r"^ +Local device: +(?P<dev>[\w-]+)", continues=True),
        pattern("Peer host:", r"^ +Peer host: +(?P<rhost>[\w.-]+)", continues=True),
        pattern(
            "An error occurred in MPI_",
            r"^\[(?P<host>[\w.-]+):\d+\] \*\*\* An error occurred in (?P<detail>MPI_\w+)",
            "aborted",
        ),
        pattern(
            "memory registration",
            r"limit.*memory (?:is )?(?:register|registration)|RLIMIT_MEMLOCK",
            "registration-failed",
        ),
        pattern(
            "locked memory",
            r"trying to allocate some locked memory|^allocate some locked memory",
            "registration-failed",
        ),
        pattern("error initializing an OpenFabrics", r"error initializing an OpenFabrics device", "openib-unused"),
        # Intel MPI and MPICH over libfabric
        pattern(
            "MPIDI_OFI_",
            r"MPIDI_OFI_\w+[(:].*(?P<detail>Cannot allocate memory)",
            "registration-failed",
        ),
        pattern("MPIDI_OFI_handle_cq_error", r"MPIDI_OFI_handle_cq_error:(?P<detail>[\w/ ]+)", "completion-error"),
        pattern("Fatal error in", r"Fatal error in (?P<detail>P?MPI_\w+)", "aborted"),
        pattern("btl:tcp", r"\bbtl:tcp: .*(?:connected|path)", "tcp-used"),
    ),
)
