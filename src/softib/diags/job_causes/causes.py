"""Causes of a job's failure, and the evidence expected for each. All numbers are assumptions with a stated reason.
``prior``: the frequency of the cause among failed jobs. ``symptoms``: the probability of the log's first symptom given
the cause (:data:`OTHER` for symptoms that are not listed). ``features``: the probability of each feature at the faulty
part (:data:`BACKGROUND` has the probabilities at other parts). The numbers are used to rank causes; they were not
fitted to failures of real fabrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["BACKGROUND", "CAUSES", "OTHER", "Cause"]

OTHER = 0.004
"""Probability of a symptom that a cause does not list."""

LOCAL = frozenset(
    {
        "gid-missing",
        "invalid-request",
        "local-length",
        "local-protection",
        "mtu-refused",
        "no-device",
        "registration-failed",
    }
)
COINCIDENCE = 2e-6
"""Probability that a fault of a cable or switch causes a symptom of :data:`LOCAL` while the host's port is up. Such a
symptom occurs in the host before it sends a packet, so even a cable with many errors is a different fault.
"""

BACKGROUND: dict[str, float] = {
    "link-back": 0.004,
    "link-down": 0.004,
    "damaged": 0.01,
    "waits": 0.03,
    "refused": 0.002,
    "fell-ever": 0.15,
    "errors-ever": 0.15,
    "silent": 0.004,
    "unheard": 0.004,
    "unreached": 0.004,
    "idle": 0.08,
    "pkeys-apart": 0.001,
    "first-pkeys-apart": 0.02,
    "subnets-apart": 0.001,
    "lids-moved": 0.002,
    "alive": 0.9,
    "ethernet": 0.0005,
    "link-reported": 0.08,
    "tcp-configured": 0.02,
}
"""Feature → its probability at a part that is not involved in the failure. Of 1,000 links, a few fail or have errors
within minutes of any moment. One link in seven has counted errors since its counters were cleared. Kernel logs without
times also list links that were down hours ago (``link-reported``).
"""


@dataclass(frozen=True)
class Cause:
    """A cause of failed jobs. ``scope``: the faulty part: a ``cable``, a ``switch``, a ``host`` (its port), or the
    ``job``.
    """

    code: str
    scope: str
    prior: float
    meaning: str
    reason: str
    command: str
    """Next command to run; {a}, {b}: the ends of the cable; {node}: the switch or host; {fabric}: the source."""
    symptoms: dict[str, float] = field(default_factory=dict)
    features: dict[str, float] = field(default_factory=dict)

    def expects(self, symptom: str) -> float:
        """Return the probability that ``symptom`` is the first symptom in the log of a job that failed from this
        cause.
        """
        elsewhere = symptom in LOCAL and self.scope in ("cable", "switch")
        if symptom == "no-device" and self.features.get("link-down", 0.0) > 0.5:
            elsewhere = False  # NCCL finds no device on a host without an active port
        return self.symptoms.get(symptom, COINCIDENCE if elsewhere else OTHER)


_LOST = {
    "retry-exceeded": 0.43,
    "aborted": 0.06,
    "time-limit": 0.06,
    "collective-stuck": 0.05,
    "collective-timeout": 0.06,
    "receive-timeout": 0.05,
    "connect-failed": 0.03,
    "peer-lost": 0.04,
    "flushed": 0.02,
    "link-down": 0.04,
    "link-errors": 0.01,
    "node-left": 0.01,
    "process-died": 0.015,
    "completion-error": 0.02,
    "no-result": 0.02,
}
"""Symptoms of lost packets: a reliable connection ends with status 12, and the other processes of the job wait. A
process that is killed before its retries are over prints nothing.
"""

CAUSES: tuple[Cause, ...] = (
    Cause(
        "cable-down",
        "cable",
        0.09,
        "a cable lost its link",
        "a link failure ends most connections over that cable; links that stay down are slightly more common",
        "softib check {fabric}; reseat or replace the cable {a} ↔ {b}",
        _LOST | {"link-down": 0.12},
        {
            "unreached": 0.93,
            "link-reported": 0.5,
            "link-down": 0.93,
            "link-back": 0.04,
            "damaged": 0.08,
            "waits": 0.2,
            "fell-ever": 0.97,
            "idle": 0.1,
        },
    ),
    Cause(
        "flapping",
        "cable",
        0.06,
        "a cable's link goes down and comes back",
        "as above, half as likely; traffic between two failures hides it",
        "softib diagnose HISTORY; reseat or replace the cable {a} ↔ {b}",
        _LOST | {"link-down": 0.08, "none": 0.02, "completed": 0.02},
        {
            "unreached": 0.3,
            "link-reported": 0.5,
            "link-down": 0.1,
            "link-back": 0.87,
            "damaged": 0.2,
            "waits": 0.2,
            "fell-ever": 0.97,
            "idle": 0.05,
        },
    ),
    Cause(
        "bit-errors",
        "cable",
        0.07,
        "a cable damages packets",
        "retries hide a few lost packets; status 12 needs a loss ratio that counters show. Management packets cross "
        "the same cable: the port behind it may not answer",
        "softib diagnose HISTORY; clean or replace the cable {a} ↔ {b}",
        _LOST | {"link-errors": 0.08, "link-down": 0.01, "none": 0.015, "completed": 0.03},
        {
            "unreached": 0.3,
            "damaged": 0.97,
            "link-down": 0.02,
            "link-back": 0.06,
            "waits": 0.1,
            "unheard": 0.2,
            "errors-ever": 0.97,
            "idle": 0.05,
        },
    ),
    Cause(
        "slow-receiver",
        "cable",
        0.05,
        "a port accepts packets more slowly than they arrive, or none",
        "status 12 from congestion alone needs waits of seconds; a stalled host causes them",
        "softib top {fabric} --sort waiting; check the host or switch behind {b}",
        _LOST | {"none": 0.03, "completed": 0.03, "no-result": 0.08, "link-down": 0.01, "link-errors": 0.005},
        {
            "unreached": 0.3,
            "waits": 0.85,
            "unheard": 0.3,
            "link-down": 0.005,
            "link-back": 0.005,
            "idle": 0.1,
        },
    ),
    Cause(
        "switch-dead",
        "switch",
        0.03,
        "a switch lost its power or hangs",
        "rarer than cable faults, since there are fewer switches; ends all connections over it at once",
        "softib check {fabric}; check power and console of {node}",
        _LOST | {"node-left": 0.06},
        {"unreached": 0.95, "link-reported": 0.3, "link-down": 0.95, "link-back": 0.02, "silent": 0.97, "idle": 0.1},
    ),
    Cause(
        "host-dead",
        "host",
        0.04,
        "a host crashed, restarted or lost its power",
        "as frequent as any single network fault in published failure logs of clusters",
        "check console and dmesg of {node}",
        {
            "node-failed": 0.55,
            "retry-exceeded": 0.15,
            "peer-lost": 0.1,
            "node-left": 0.03,
            "time-limit": 0.02,
            "collective-timeout": 0.03,
            "collective-stuck": 0.03,
            "aborted": 0.02,
            "no-result": 0.03,
        },
        {"unreached": 0.9, "link-down": 0.8, "link-back": 0.1, "alive": 0.03, "fell-ever": 0.9, "idle": 0.2},
    ),
    Cause(
        "port-down",
        "host",
        0.03,
        "the adapter's port was not active when the job began",
        "a starting job reports it before it sends, or its other end does not reach it",
        "softib run --node {node} -- ibstat; the cable {a} ↔ {b}",
        {
            "port-not-active": 0.55,
            "no-device": 0.2,
            "no-transport": 0.12,
            "connect-failed": 0.06,
            "retry-exceeded": 0.04,
            "aborted": 0.02,
        },
        {
            "unreached": 0.95,
            "link-reported": 0.5,
            "link-down": 0.95,
            "link-back": 0.02,
            "alive": 0.97,
            "fell-ever": 0.7,
            "idle": 0.9,
        },
    ),
    Cause(
        "device-fault",
        "host",
        0.02,
        "the adapter or its firmware failed",
        "kernels report it",
        "dmesg on {node}; restart the adapter, open a support case with its firmware log",
        {"device-fatal": 0.9, "retry-exceeded": 0.05},
        {"unreached": 0.5, "link-reported": 0.4, "link-down": 0.4, "link-back": 0.2},
    ),
    Cause(
        "partition",
        "job",
        0.03,
        "the two ports share no partition with a full member, or not the one that the program uses",
        "sends leave and are dropped (IBA 10.9.3): status 12 at once, for every message",
        "softib path {fabric} {a} {b}; add both ports to one partition, at least one as a full member",
        {
            "retry-exceeded": 0.6,
            "connect-failed": 0.2,
            "aborted": 0.06,
            "time-limit": 0.06,
            "partition-violation": 0.06,
        },
        {"pkeys-apart": 0.6, "first-pkeys-apart": 0.97, "refused": 0.6, "idle": 0.95},
    ),
    Cause(
        "wrong-rail",
        "job",
        0.01,
        "the two ports are on subnets that no cable joins",
        "separate subnets per rail; the wrong adapter was chosen at one end",
        "softib path {fabric} {a} {b}; choose the adapter of the same rail (NCCL_IB_HCA, UCX_NET_DEVICES)",
        {"retry-exceeded": 0.6, "connect-failed": 0.3},
        {"subnets-apart": 0.97, "idle": 0.8},
    ),
    Cause(
        "not-infiniband",
        "job",
        0.02,
        "the ports are Ethernet (RoCE), not part of an InfiniBand subnet",
        "their GIDs are IPv4 addresses or derived from MAC addresses",
        "check the Ethernet switches between the hosts (PFC, ECN, MTU, VLAN), and ethtool -S of the adapters",
        _LOST | {"retry-exceeded": 0.3, "address-unresolved": 0.2},
        {"ethernet": 0.99},
    ),
    Cause(
        "lids-moved",
        "job",
        0.01,
        "LIDs changed while the job ran",
        "a subnet manager restarted without its LID cache; connections keep the old LIDs",
        "softib sm explain {a} {b}; keep guid2lid (honor_guid2lid_file) of the subnet manager",
        {"retry-exceeded": 0.7, "manager-changed": 0.15, "aborted": 0.05},
        {"lids-moved": 0.97},
    ),
    Cause(
        "gid-index",
        "job",
        0.03,
        "the GID index is empty or does not exist",
        "programs print it before they connect",
        "softib run --node {node} -- ibv_devinfo -v; set the index (NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX), on "
        "InfiniBand 0",
        {"gid-missing": 0.7, "address-unresolved": 0.25, "connect-failed": 0.04},
        {"idle": 0.9},
    ),
    Cause(
        "mtu",
        "job",
        0.01,
        "the program requests a larger path MTU than the port supports",
        "programs print it before they connect",
        "softib run --node {node} -- ibv_devinfo; use the active_mtu",
        {"mtu-refused": 0.9, "connect-failed": 0.06},
        {"idle": 0.9},
    ),
    Cause(
        "receiver-not-ready",
        "job",
        0.04,
        "the receiver posted no receive in time (RNR)",
        "the packets arrive: the network is not the cause",
        "check the receiving process ({b}); increase rnr_retry and the RNR timer",
        {"receiver-not-ready": 0.97},
        {"idle": 0.3},
    ),
    Cause(
        "application-error",
        "job",
        0.05,
        "the program used memory, keys, lengths or collectives wrongly",
        "the other end rejects a received packet: the network is not the cause",
        "check the first error of the program, not of the network",
        {
            "remote-access": 0.26,
            "invalid-request": 0.2,
            "local-length": 0.2,
            "local-protection": 0.1,
            "local-operation": 0.04,
            "remote-operation": 0.06,
            "collective-mismatch": 0.1,
            "aborted": 0.04,
        },
        {"idle": 0.3},
    ),
    Cause(
        "process-died",
        "job",
        0.13,
        "a process of the job ended, and the others lost it",
        "crashes and out-of-memory kills end more jobs than the network does",
        "the scheduler's and kernel's log of that host (dmesg, sacct)",
        {
            "process-died": 0.58,
            "out-of-memory": 0.1,
            "retry-exceeded": 0.12,
            "peer-lost": 0.1,
            "aborted": 0.03,
            "time-limit": 0.03,
            "flushed": 0.01,
            "no-result": 0.02,
            "none": 0.01,
        },
        {"idle": 0.05},
    ),
    Cause(
        "hang",
        "job",
        0.07,
        "a process stopped or fell behind, and the others wait for it",
        "data loading, a deadlock, a stopped process: no packet is lost, so nothing reports an error",
        "py-spy dump or gdb on the rank that is behind; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 for the next run",
        {
            "rank-behind": 0.25,
            "collective-timeout": 0.2,
            "time-limit": 0.42,
            "receive-timeout": 0.03,
            "collective-stuck": 0.05,
            "no-result": 0.04,
            "none": 0.01,
        },
        {"idle": 0.3},
    ),
    Cause(
        "gpu-fault",
        "job",
        0.03,
        "a GPU failed",
        "the driver reports an Xid",
        "nvidia-smi -q and dmesg on {node}",
        {"gpu-fault": 0.9, "collective-stuck": 0.04},
        {"idle": 0.2},
    ),
    Cause(
        "registration-limit",
        "job",
        0.02,
        "memory could not be registered, or queues not created",
        "the locked-memory limit, or a table of the adapter, is full",
        "ulimit -l on {node} (unlimited is usual); the adapter's max_mr (ibv_devinfo -v)",
        {"registration-failed": 0.95},
        {"idle": 0.9},
    ),
    Cause(
        "no-device",
        "job",
        0.02,
        "the program found no usable adapter",
        "driver, container or library, since the port is active",
        "softib run --node {node} -- ibv_devices; /dev/infiniband in the container",
        {"no-device": 0.63, "no-transport": 0.3, "openib-unused": 0.03},
        {"idle": 0.9},
    ),
    Cause(
        "tcp-fallback",
        "job",
        0.04,
        "the job's traffic went over TCP",
        "libraries use sockets without an error if they find no adapter, or are configured to",
        "UCX_LOG_LEVEL=info or NCCL_DEBUG=INFO; UCX_TLS, OMPI_MCA_btl, NCCL_NET of the job",
        {
            "tcp-used": 0.62,
            "none": 0.22,
            "completed": 0.06,
            "no-device": 0.02,
            "no-transport": 0.03,
            "openib-unused": 0.05,
        },
        {"idle": 0.97, "tcp-configured": 0.6},
    ),
    Cause(
        "nothing",
        "job",
        0.05,
        "no line of the log is recognised as an error",
        "the job ended normally, or was only slow; some programs print that they ended, many print nothing",
        "softib diagnose HISTORY for slow links; provide the logs of all ranks",
        {
            "completed": 0.5,
            "none": 0.25,
            "manager-changed": 0.1,
            "peer-lost": 0.02,
            "openib-unused": 0.08,
            "no-result": 0.02,
        },
        {"idle": 0.03},
    ),
    Cause(
        "unknown",
        "job",
        0.05,
        "something else",
        "a cause outside of this table",
        "provide the logs of all hosts, the history of the counters, and NCCL_DEBUG=INFO",
        {
            "retry-exceeded": 0.2,
            "aborted": 0.15,
            "time-limit": 0.08,
            "connect-failed": 0.1,
            "peer-lost": 0.1,
            "collective-timeout": 0.06,
            "none": 0.04,
            "completed": 0.01,
            "no-result": 0.05,
            "flushed": 0.05,
            "no-device": 0.03,
            "no-transport": 0.03,
            "address-unresolved": 0.02,
            "completion-error": 0.05,
            "openib-unused": 0.03,
        },
        {"idle": 0.2},
    ),
)
