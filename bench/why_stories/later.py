"""Forty stories drawn after the rules were fixed, before any of them was answered: other fabrics, faults elsewhere, two jobs in one log.

The draw knows places and programs, and nothing of the rules. Twelve stories are on a healthy path. Change one only to play it.
"""

from __future__ import annotations

import random

from bench.why_stories.kinds import ADAPTER, Program, Story

__all__ = ["LATER"]

FIRST, SEED = 240, 32_2026
SIZE = {"tree": 32, "tall": 16, "deep": 16, "old": 8, "wide": 72, "torus": 16, "parts": 32, "limited": 8}
LEAF = {"tree": 4, "tall": 2, "deep": 2, "old": 2, "wide": 6, "torus": 1, "parts": 4, "limited": 2}
"""Hosts of a fabric, and of one of its leaves."""
TREES = ("tall", "deep", "wide")
ANY = ("tall", "deep", "old", "wide", "torus")
DRAWN = (
    *("killed", "crashed-beside-a-flap", "stopped-rank", "well-beside-a-flap", "well-beside-bit-errors", "idle", "key"),
    *("too-long", "gid", "tcp", "killed-rank-beside-a-dead-cable", "two-jobs-one-killed"),
    *("cable", "cable", "uplink", "uplink", "flap", "flap", "uplink-flap", "errors", "errors", "uplink-errors"),
    *("uplink-errors", "blocked", "blocked", "leaf", "spine", "spine", "before", "before", "host", "adapter", "lids"),
    *("tenant", "limited", "device", "two-jobs-cable", "two-jobs-cable", "two-jobs-errors", "two-jobs-leaf"),
)
"""Kinds; the first twelve are on a healthy path."""


def _names(rng: random.Random, fabric: str, n: int) -> list[str]:
    """Hosts on different leaves; host-0001 has the manager."""
    hosts, leaves = [], set()
    for number in rng.sample(range(2, SIZE[fabric] + 1), SIZE[fabric] - 1):
        leaf = (number - 1) // LEAF[fabric]
        if leaf not in leaves and leaf:
            leaves.add(leaf)
            hosts.append(f"host-{number:04d}")
    return hosts[:n]


def _pair(command: str, a: str, b: str, prefix: str = "") -> list[Program]:
    client = Program(f"{prefix}client.log", b, f"{command} ADDR-{a}", 1.0)
    return [Program(f"{prefix}server.log", a, command), client]


def _job(rng: random.Random, a: str, b: str, prefix: str = "", extra: str = "") -> list[Program]:
    bw = f"{rng.choice(('ib_write_bw', 'ib_send_bw', 'ib_read_bw'))} -D {rng.choice((9, 11))} -F {extra}".strip()
    pingpong = f"ibv_rc_pingpong -n 9000000 -s {rng.choice((1024, 8192))}"
    ucx = f"env UCX_LOG_LEVEL=info ucx_perftest -t {rng.choice(('tag_bw', 'tag_lat'))} -n 6000000 -s 4096"
    return _pair(bw if extra or prefix else rng.choice((bw, bw, pingpong, ucx)), a, b, prefix)


def _mpi(rng: random.Random, hosts: list[str]) -> list[Program]:
    return [
        Program(
            "job.log",
            ",".join(h for h in hosts if h),
            f"mpi 25 {rng.choice(('OMPI_MCA_pml=ucx', 'UCX_LOG_LEVEL=warn'))} 12.0",
        )
    ]


def _errors(a: str, b: str, mode: str) -> list[Program]:
    serve, send = (f"verbs_errors {verb} ADDR-{a} {mode}" for verb in ("serve", "send"))
    return [Program("server.log", a, serve), Program("client.log", b, send, 1.0)]


def _story(number: int, kind: str) -> Story:
    rng = random.Random(SEED * 1000 + number)
    fabric = {"tenant": "parts", "limited": "limited", "uplink": "", "uplink-flap": "", "uplink-errors": ""}.get(
        kind, "any"
    )
    fabric = rng.choice(ANY) if fabric == "any" else fabric or rng.choice(TREES)
    if kind in ("leaf", "spine", "two-jobs-leaf"):
        fabric = rng.choice(TREES)
    if kind.startswith(("two-jobs", "crashed", "well", "key", "killed-rank")) and fabric == "old":
        fabric = "wide"
    if kind == "lids":  # OpenSM gives the ports of this fabric other LIDs than softib's manager does
        fabric = "tree"
    a, b, c, d = (*_names(rng, fabric, 4), "", "")[:4]
    victim = rng.choice((a, b))
    port, at = f"{victim}[1]", round(rng.uniform(2.5, 4.5), 1)
    one = Story(number, kind, fabric, _job(rng, a, b))
    many = rng.random() < 0.3 and kind in ("cable", "flap", "errors", "blocked")
    if many:
        one.programs, at = _mpi(rng, [a, b, c, d]), at + 2.0
    rate = rng.choice(("3e-3", "1e-2", "2e-2"))
    tables: dict[str, tuple[str, str, list[tuple[float, str]]]] = {
        "killed": ("process-died", "", [(at, f"signal {rng.choice(('KILL', 'SEGV'))} server.log")]),
        "crashed-beside-a-flap": (
            "process-died",
            "",
            [(1.0, f"fault flap {c}[1] --period 4 --down 2 --count 2"), (at, "signal ABRT server.log")],
        ),
        "stopped-rank": ("hang", "", [(at + 2, f"signal STOP rank {rng.randint(1, 3)}")]),
        "well-beside-a-flap": ("nothing", "", [(1.0, f"fault flap {c}[1] --period 3 --down 1 --count 2")]),
        "well-beside-bit-errors": ("nothing", "", [(-1.0, f"fault ber {c}[1] 1e-2")]),
        "idle": ("receiver-not-ready", "", []),
        "key": ("application-error", "", [(-1.0, f"fault link-down {c}[1]")]),
        "too-long": ("application-error", "", []),
        "gid": ("gid-index", "", []),
        "tcp": ("tcp-fallback", "", []),
        "killed-rank-beside-a-dead-cable": (
            "process-died",
            "",
            [(2.0, f"fault link-down {d}[1]"), (at + 3, f"signal KILL rank {rng.randint(0, 2)}")],
        ),
        "two-jobs-one-killed": ("process-died", "", [(at, "signal KILL server.log")]),
        "cable": ("cable-down", port, [(at, f"fault link-down {port}")]),
        "uplink": ("cable-down", "PATH", [(at, "fault link-down PATH")]),
        "flap": ("flapping", port, [(at, f"fault flap {port} --period 8 --down 5 --count {rng.randint(1, 2)}")]),
        "uplink-flap": ("flapping", "PATH", [(at, "fault flap PATH --period 6 --down 4 --count 2")]),
        "errors": ("bit-errors", port, [(at, f"fault ber {port} {rate}")]),
        "uplink-errors": ("bit-errors", "PATH", [(at, f"fault ber PATH {rate}")]),
        "blocked": ("slow-receiver", port, [(at, f"fault slow-port {port} 0")]),
        "leaf": ("switch-dead", "PATH-LEAF", [(at, "fault switch-down PATH-LEAF")]),
        "spine": ("switch-dead", "PATH-SPINE", [(at, "fault switch-down PATH-SPINE")]),
        "before": ("port-down", port, [(-1.0, f"fault link-down {port}")]),
        "host": (
            "host-dead",
            a,
            [
                (at, f"fault link-down {a}[1]"),
                (at, "signal STOP server.log"),
                (at + 5, f"note slurm.log srun: error: Node failure on {a}"),
            ],
        ),
        "adapter": (
            "device-fault",
            victim,
            [
                (at - 0.3, f"note dmesg.log mlx5_core 0000:5e:00.0: {rng.choice(ADAPTER)}"),
                (at, f"fault link-down {port}"),
            ],
        ),
        "lids": ("lids-moved", "", [(at, "opensm -r")]),
        "tenant": ("partition", "", []),
        "limited": ("partition", "", []),
        "device": ("no-device", "", []),
        "two-jobs-cable": ("cable-down", port, [(at, f"fault link-down {port}")]),
        "two-jobs-errors": ("bit-errors", port, [(at, f"fault ber {port} 2e-2")]),
        "two-jobs-leaf": ("switch-dead", "PATH-LEAF", [(at, "fault switch-down PATH-LEAF")]),
    }
    one.cause, one.where, one.acts = tables[kind]
    match kind:
        case "stopped-rank":
            one.programs = _mpi(rng, _names(rng, fabric, 4))
        case "killed-rank-beside-a-dead-cable":
            one.programs = _mpi(rng, [a, b, c])
        case "well-beside-a-flap" | "well-beside-bit-errors":
            one.programs = _pair("ib_write_bw -D 5 -F", a, b)
        case "idle" | "key":
            one.programs = _errors(a, b, kind)
        case "too-long":
            one.programs = _pair("ibv_rc_pingpong -s 2048", a, b)
            one.programs[1].command = f"ibv_rc_pingpong -s 16384 ADDR-{a}"
        case "gid":
            one.programs = _pair("timeout 8 ibv_rc_pingpong -g 0", a, b)
            one.programs[1].command = f"ibv_rc_pingpong -g {rng.randint(140, 240)} ADDR-{a}"
        case "tcp":
            one.programs = [
                Program("job.log", f"{a},{b}", "mpi 25 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 OMPI_MCA_pml=ucx 3.0")
            ]
        case "device":
            one.programs = _pair("ib_send_bw -D 4 -F", a, b)
            one.programs[1].command += f" -d mlx5_{rng.randint(1, 7)}"
        case "uplink" | "uplink-flap" | "spine":
            one.programs = _job(rng, a, b, extra="-u 8")
        case "host":
            one.programs = _pair("ib_write_bw -D 9 -F", a, b)
        case "tenant" | "limited":
            one.programs = _pair(rng.choice(("ibv_rc_pingpong -n 4000", "ib_send_bw -D 4 -F")), a, b)
    if kind.startswith("two-jobs"):
        one.programs = _job(rng, a, b, extra="-u 8") + _job(rng, c, d, prefix="other-")
        one.mixed = True
    return one


LATER = [_story(FIRST + n, kind) for n, kind in enumerate(DRAWN)]
"""In the order of their numbers."""
