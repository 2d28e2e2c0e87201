"""What is planted, and which programs run meanwhile. Written before the rules of ``softib why``, and knows nothing of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["FABRICS", "GENERATED", "KINDS", "Program", "Story", "kind_of", "story"]

FABRICS = {
    "tree": "name: pod\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n",
    "parts": "name: pod\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\nsm: {partitions: partitions.conf}\n",
    "limited": "name: pod\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\nsm: {partitions: limited.conf}\n",
    "tall": "name: pod\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 3}\n",
    "deep": "name: pod\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 3}\ncables: {medium: AOC, length_m: 10}\n",
    "wide": "name: pod\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 12, levels: 2}\n",
    "torus": "name: pod\ngeneration: NDR\ntopology: {kind: torus, dims: [4, 4]}\n",
    "old": "name: pod\ngeneration: QDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n",
}
"""fabric.yaml by name."""
HOSTS = {"tree": 32, "parts": 32, "limited": 8}
PARTITIONS = {
    "partitions.conf": "Default=0x7fff: SELF=full;\na=0x0001: @A = full;\nb=0x0002: @B = full;\n",
    "limited.conf": "Default=0x7fff: ALL=limited, SELF=full;\n",
}


@dataclass
class Program:
    """One process: ``command`` on ``node``, started after ``delay`` seconds; ADDR-NODE in it is the address of that node."""

    log: str
    node: str
    command: str
    delay: float = 0.0


@dataclass
class Story:
    """``acts``: (seconds after the programs began, what). A ``fault …`` of ``softib``, a ``signal NAME LOG`` to the program of that
    log, ``signal NAME rank N``, ``note LOG TEXT``: a kernel's line with the time, ``run NODE COMMAND …`` with PEER-HOST for LID
    and port of the switch at a host's cable, or ``opensm OPTIONS``: another manager takes the subnet, once."""

    number: int
    kind: str
    fabric: str
    programs: list[Program]
    acts: list[tuple[float, str]] = field(default_factory=list)
    cause: str = ""
    where: str = ""
    """The planted place as ``softib fault`` calls it: NODE[PORT] or NODE; on the pair's path PATH: its leaf's uplink, PATH-TOP: a
    spine's, PATH-LEAF,
    PATH-SPINE, PATH-CORE: its first leaf, spine, core."""
    seconds: float = 30.0
    mixed: bool = False
    """Two jobs, whose lines are in one log, each behind the name of its host (pdsh, ``mpirun --tag-output``)."""


def _pair(rng: random.Random, fabric: str) -> tuple[str, str]:
    """Two hosts that are not on one leaf, none the manager's."""
    n, a_leaf = HOSTS[fabric], {"tree": 4, "parts": 4, "limited": 2}[fabric]
    while True:
        a, b = rng.sample(range(2, n + 1), 2)
        if (a - 1) // a_leaf != (b - 1) // a_leaf:
            return f"host-{a:04d}", f"host-{b:04d}"


def _perftest(rng: random.Random, a: str, b: str, extra: str = "", seconds: int = 9) -> list[Program]:
    program = rng.choice(("ib_write_bw", "ib_send_bw", "ib_read_bw"))
    command = f"{program} -D {seconds} -F {extra}".strip()
    return [Program("server.log", a, command), Program("client.log", b, f"{command} ADDR-{a}", 1.0)]


def _pingpong(rng: random.Random, a: str, b: str, extra: str = "") -> list[Program]:
    command = f"ibv_rc_pingpong -n 9000000 -s {rng.choice((512, 4096, 32768))} {extra}".strip()
    return [Program("server.log", a, command), Program("client.log", b, f"{command} ADDR-{a}", 1.0)]


def _ucx(rng: random.Random, a: str, b: str, tls: str = "") -> list[Program]:
    command = (
        f"{tls}ucx_perftest -t {rng.choice(('tag_bw', 'ucp_put_bw', 'tag_lat'))} -n 6000000 -s {rng.choice((8, 4096))}"
    )
    command = f"env UCX_LOG_LEVEL=info {command}" if rng.random() < 0.7 else command
    return [Program("server.log", a, command), Program("client.log", b, f"{command} ADDR-{a}", 1.5)]


def _mpi(
    rng: random.Random, nodes: list[str], seconds: float = 12.0, env: str = "OMPI_MCA_pml=ucx", limit: int = 25
) -> list[Program]:
    return [Program("job.log", ",".join(nodes), f"mpi {limit} {env} {seconds}")]


def _any(rng: random.Random, a: str, b: str) -> list[Program]:
    return rng.choice((_perftest, _perftest, _pingpong, _ucx))(rng, a, b)


def story(number: int, kind: str) -> Story:
    """The story ``number``, of ``kind``; the same one every time."""
    rng = random.Random(number * 1000 + KINDS.index(kind))
    fabric = {"partition": "parts", "limited": "limited"}.get(kind, "tree")
    a, b = _pair(rng, fabric)
    at = round(rng.uniform(2.5, 4.5), 1)
    host = f"{rng.choice((a, b))}[1]"
    one = Story(number, kind, fabric, [], cause={"limited": "partition"}.get(kind, kind))
    if kind in ("cable-down", "flapping", "bit-errors", "slow-receiver") and rng.random() < 0.25:
        nodes = [
            a,
            b,
            *(f"host-{n:04d}" for n in rng.sample([n for n in range(2, 33) if n not in (int(a[5:]), int(b[5:]))], 2)),
        ]
        one.programs = _mpi(rng, nodes, env=rng.choice(("OMPI_MCA_pml=ucx", "")))
        at += 2.0
    else:
        one.programs = _any(rng, a, b)
    match kind:
        case "cable-down":
            one.where, one.acts = host, [(at, f"fault link-down {host}")]
        case "flapping":
            one.where, one.acts = host, [(at, f"fault flap {host} --period 8 --down 5 --count {rng.randint(1, 2)}")]
        case "bit-errors":
            one.where, one.acts = host, [(at, f"fault ber {host} {rng.choice(('1e-2', '3e-3', '2e-2'))}")]
        case "slow-receiver":
            one.where, one.acts = host, [(at, f"fault slow-port {host} 0")]
        case "core-cable-down":
            one.where, one.programs = "PATH", _perftest(rng, a, b, "-u 8")
            one.acts = [(at, "fault link-down PATH")]
        case "core-bit-errors":
            one.where, one.acts = "PATH", [(at, "fault ber PATH 1e-2")]
        case "leaf-dead":
            leaf = f"leaf-{(int(host[5:9]) - 1) // 4 + 1}"
            one.cause, one.where, one.acts = "switch-dead", leaf, [(at, f"fault switch-down {leaf}")]
        case "spine-dead":
            one.cause, one.where, one.programs = "switch-dead", "PATH-SPINE", _perftest(rng, a, b, "-u 8")
            one.acts = [(at, "fault switch-down PATH-SPINE")]
        case "down-before":
            one.where, one.cause = host, "port-down"
            one.acts = [(-1.0, f"fault link-down {host}")]
        case "process-killed":
            one.cause, one.acts = "process-died", [(at, f"signal {rng.choice(('KILL', 'SEGV', 'ABRT'))} server.log")]
        case "rank-killed":
            one.cause, one.programs = "process-died", _mpi(rng, [a, b, "host-0003", "host-0017"])
            one.acts = [(at + 2, f"signal {rng.choice(('KILL', 'SEGV', 'ABRT'))} rank {rng.randint(0, 3)}")]
        case "rank-stopped":
            one.cause, one.programs = "hang", _mpi(rng, [a, b, "host-0003", "host-0017"], limit=25)
            one.acts = [(at + 2, f"signal STOP rank {rng.randint(1, 3)}")]
        case "not-ready":
            one.cause = "receiver-not-ready"
            one.programs = _errors(a, b, "idle")
        case "wrong-key":
            one.cause, one.programs = "application-error", _errors(a, b, "key")
        case "too-long":
            one.cause = "application-error"
            one.programs = [
                Program("server.log", a, "ibv_rc_pingpong -s 4096"),
                Program("client.log", b, f"ibv_rc_pingpong -s 65536 ADDR-{a}", 1.0),
            ]
        case "registration":
            one.programs = [Program("client.log", a, "verbs_errors register")]
            one.cause, one.seconds = "registration-limit", 150.0
        case "gid-index":
            one.programs = [
                Program("server.log", a, "timeout 8 ibv_rc_pingpong -g 0"),
                Program("client.log", b, f"ibv_rc_pingpong -g {rng.randint(150, 220)} ADDR-{a}", 1.0),
            ]
        case "tcp":
            one.cause = "tcp-fallback"
            one.programs = _mpi(
                rng,
                [a, b],
                3.0,
                rng.choice(
                    ("OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self", "UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 OMPI_MCA_pml=ucx")
                ),
            )
        case "healthy":
            one.cause, one.programs = "nothing", _perftest(rng, a, b, seconds=4)
        case "host-dead":
            victim, log = rng.choice(((a, "server.log"), (b, "client.log")))
            one.where, one.programs = victim, rng.choice((_perftest, _ucx))(rng, a, b)
            one.acts = [(at, f"fault link-down {victim}[1]"), (at, f"signal STOP {log}")]
            one.acts.append((at + 5, f"note slurm.log srun: error: Node failure on {victim}"))
        case "device-fault":
            note = f"note dmesg.log mlx5_core 0000:{rng.choice(('1a', '81', 'c3'))}:00.0: {rng.choice(ADAPTER)}"
            one.where, one.acts = host.partition("[")[0], [(at - 0.2, note), (at, f"fault link-down {host}")]
        case "sm-restart":
            one.cause, one.programs, one.acts = "lids-moved", _perftest(rng, a, b, seconds=20), [(at, "opensm -r")]
        case "sm-handover":
            one.cause, one.programs, one.acts = "nothing", _perftest(rng, a, b, seconds=12), [(at, "opensm")]
        case "wrong-device":
            one.cause, one.programs = "no-device", _perftest(rng, a, b, seconds=4)
            one.programs[1].command += f" -d mlx5_{rng.randint(1, 7)}"
        case _:  # partition, limited
            one.programs = rng.choice((_perftest, _pingpong))(rng, a, b)
    return one


def _errors(a: str, b: str, mode: str) -> list[Program]:
    return [
        Program("server.log", a, f"verbs_errors serve ADDR-{a} {mode}"),
        Program("client.log", b, f"verbs_errors send ADDR-{a} {mode}", 1.0),
    ]


ADAPTER = (
    "poll_health:825:(pid 0): device's health compromised - reached miss count",
    "mlx5_cmd_out_err:808:(pid 2211): ACCESS_REG(0x805) op_mod(0x1) failed, status internal error(0x1)",
    "health recovery flow aborted, PCI reads still not working",
)
"""A failing adapter in a kernel's log."""
KINDS = (
    "cable-down",
    "flapping",
    "bit-errors",
    "slow-receiver",
    "core-cable-down",
    "core-bit-errors",
    "leaf-dead",
    "spine-dead",
    "down-before",
    "partition",
    "limited",
    "process-killed",
    "rank-killed",
    "rank-stopped",
    "not-ready",
    "wrong-key",
    "too-long",
    "registration",
    "gid-index",
    "tcp",
    "healthy",
    "host-dead",
    "device-fault",
    "sm-restart",
    "sm-handover",
    "wrong-device",
)
GENERATED, FIRST_KINDS, CYCLES = 160, 21, 6
"""Stories in all: they cycle through the first kinds six times, then through the others."""


def kind_of(number: int) -> str:
    """The kind of story ``number``."""
    if number < FIRST_KINDS * CYCLES:
        return KINDS[number % FIRST_KINDS]
    return KINDS[FIRST_KINDS + number % (len(KINDS) - FIRST_KINDS)]
