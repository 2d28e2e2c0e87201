"""Digests of packet runs on random fabrics: two versions of the simulator that give the same
digests give the same bytes.

    python bench/sim_digests.py --write before.txt            (at the old commit)
    python bench/sim_digests.py --against before.txt          (at the new one)

Each seed draws a topology with its faults, a subnet manager's configuration (engine, VLs,
congestion control, adaptive routing, aggregation), traffic (RC, UC and UD; every opcode;
dependencies, computations, multicast groups, reductions, limited receives), a network (InfiniBand,
RoCE, TCP) and the options of the run. The digest is over every column that a run returns, its log
of events, and its captures.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import SoftibError
from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.scenario.aggregation import aggregation_messages
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.scenario.sa_requests import join_group
from softib.sim.messages import Messages, MulticastGroup, Opcode, Reduction, Transport, joined, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.frames import write_capture
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from softib.workloads.hosts import hosts_of

FABRICS = 200
US = 1_000_000
LOG_LOST, OLD_REASONS = 2, 12
HOSTS_AT_MOST = 24
TOPOLOGIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fat-tree", {"radix": 4, "levels": 3}),
    ("fat-tree", {"radix": 8, "levels": 2}),
    ("fat-tree", {"radix": 6, "levels": 2}),
    ("torus", {"dims": [3, 3], "hosts_per_switch": 2}),
    ("mesh", {"dims": [3, 2], "hosts_per_switch": 2}),
    ("ring", {"switches": 5, "hosts_per_switch": 2}),
    ("hyperx", {"dims": [3, 3], "hosts_per_switch": 2}),
    ("dragonfly", {"g": 3, "a": 2, "p": 2, "h": 1}),
    ("rail-optimized", {"nodes": 4, "rails": 4, "radix": 8}),
)
QOS = (
    "qos TRUE\nqos_max_vls 4\nqos_high_limit {limit}\nqos_vlarb_high 0:8,1:4\nqos_vlarb_low 0:4,1:8,2:16,3:32\n"
    "qos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\n"
)
CONGESTION = (
    "congestion_control TRUE\ncc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold {threshold}\n"
    "cc_sw_cong_setting_packet_size 4\ncc_sw_cong_setting_marking_rate {rate}\ncc_ca_cong_setting_control_map 0xffff\n"
    "cc_ca_cong_setting_ccti_timer 0 20\ncc_ca_cong_setting_ccti_increase 0 2\n"
)


def fabric_of(rng: np.random.Generator, network: str) -> tuple[Any, bool, str]:
    """(the fabric as its manager brought it up, does it have aggregation nodes, a description)"""
    kind, params = TOPOLOGIES[rng.integers(len(TOPOLOGIES))]
    generation = ("HDR", "EDR", "NDR")[rng.integers(3)]
    text, aggregates = "", bool(rng.random() < 0.15) and network == "infiniband" and kind == "fat-tree"
    if aggregates:
        params, generation, text = {**params, "aggregation_nodes": True}, "HDR", "aggregation TRUE\n"
    if rng.random() < 0.4:
        text += QOS.format(limit=rng.integers(0, 8))
    if rng.random() < 0.4 and network == "infiniband":
        table = ",".join(f"3:{i}" for i in range(64))
        text += CONGESTION.format(threshold=rng.integers(8, 16), rate=rng.integers(0, 4)) + f"cc_cct {table}\n"
    engine = ("minhop", "updn", "ftree")[rng.integers(3)] if kind == "fat-tree" else ("minhop", "updn")[rng.integers(2)]
    if rng.random() < 0.35 and network == "infiniband":
        text += f"adaptive_routing {('free', 'bounded')[rng.integers(2)]}\n"
        engine = "ftree" if kind == "fat-tree" else engine
    fabric = generate(kind, generation=generation, **params)
    fabric.cable_length_m[:] = rng.choice([0.0, 2.0, 20.0])
    up = bring_up(fabric, config=config_of(read_options(text).options | {"engine": engine}))
    if rng.random() < 0.3:
        fabric.port_loss[(fabric.port_num > 0) & (fabric.port_peer >= 0), 1] = 3e-7
    if rng.random() < 0.2:
        PortInfo.hoq_life.set(fabric.port_info, rng.integers(0, 3))
    if rng.random() < 0.2:
        PortInfo.vl_stall_count.set(fabric.port_info, 2)
    if rng.random() < 0.2:
        fabric.port_drain[end_ports(fabric)[: rng.integers(1, 3)]] = 400.0
    return up, aggregates, f"{kind} {generation} {engine} {' '.join(line.split()[0] for line in text.splitlines())}"


def traffic(rng: np.random.Generator, up: Any, aggregates: bool, network: str) -> Messages:
    """Messages of every kind among the hosts."""
    hosts = hosts_of(up.fabric).end[:HOSTS_AT_MOST]
    n, many = int(rng.integers(60, 300)), len(hosts)
    src = rng.integers(0, many, n)
    dst = np.where(rng.random(n) < 0.4 * rng.integers(0, 2), 0, (src + rng.integers(1, many, n)) % many)
    dst = np.where(dst == src, (src + 1) % many, dst)
    transport = rng.integers(0, 3, n) if rng.random() < 0.7 and network != "tcp" else np.zeros(n, np.int64)
    opcode = np.where(transport == Transport.RC, rng.choice([0, 1, 2, 3, 5], n), rng.choice([0, 1, 5], n))
    opcode = np.where(transport == Transport.UD, Opcode.SEND, opcode)
    opcode = np.where(network == "tcp", Opcode.SEND, opcode)
    size = np.where(transport == Transport.UD, rng.integers(1, 1000, n), rng.choice([1, 100, 4097, 30_000, 90_000], n))
    size = np.where(opcode == Opcode.ATOMIC, 8, size)
    group, groups = np.zeros(n, np.int64), []
    if rng.random() < 0.3 and network == "infiniband":
        ends, members = end_ports(up.fabric), np.sort(rng.permutation(many)[:4])
        groups = [MulticastGroup(hosts[members], join_group(up, 1, ends[hosts[members]].tolist()))]
        sends = (transport == Transport.UD) & (rng.random(n) < 0.5)
        group = np.where(sends, 1, 0)
        src = np.where(sends, members[rng.integers(0, 4, n)], src)
        dst = np.where(sends, np.where(src == members[0], members[1], members[0]), dst)
    receives = np.where(
        np.isin(opcode, (Opcode.SEND, Opcode.WRITE_WITH_IMM)) & (group == 0), rng.integers(0, 2) * rng.integers(1, 4), 0
    )
    waits = (rng.random(n) < 0.25 * rng.integers(0, 2)) & (np.arange(n) > 0)
    waits &= group == 0
    needs = rng.integers(0, np.maximum(np.arange(n), 1))[waits]
    needs = np.where(group[needs] > 0, 0, needs)
    if group[0]:
        waits[:], needs = False, needs[:0]
    kind = transport * 2 + (group > 0)
    compute = (rng.random(n) < 0.1 * rng.integers(0, 2)) & (group == 0) & (network == "infiniband")
    dst, size = np.where(compute, src, dst), np.where(compute, 1, size)
    opcode, transport = np.where(compute, Opcode.COMPUTE, opcode), np.where(compute, Transport.RC, transport)
    kind, receives = np.where(compute, 7, kind), np.where(compute, 0, receives)
    made = messages(
        hosts[src],
        hosts[dst],
        size,
        opcode=opcode,
        transport=transport,
        start_ps=rng.integers(0, 5 * US, n),
        qp=(src * many + dst) * 8 + kind,
        sl=np.where(rng.random() < 0.5, 0, (src * many + dst) % 4),
        receives=receives,
        repost_ps=2 * US,
        rate_gbps=np.where((src + dst) % 5 == 0, 20.0, 0.0),
        group=group,
        groups=groups,
        first=np.concatenate([[0], np.cumsum(waits)]),
        needs=needs,
        delay_ps=rng.integers(1, 10**5, n),
    )
    if aggregates:
        reduction = Reduction(np.sort(hosts[: min(6, many)]), int(rng.choice([64, 5000])), bool(rng.integers(2)))
        made = joined(made, aggregation_messages(up.fabric, end_ports(up.fabric), reduction))
    return made


def options_of(rng: np.random.Generator, network: str, fabric: Fabric, sent: Messages) -> PacketOptions:
    """Options of a run."""
    fifo = bool(rng.random() < 0.15) and not (sent.group > 0).any()
    ports = np.flatnonzero(fabric.linked & (fabric.port_peer >= 0))
    ethernet: dict[str, Any] = {}
    if network == "roce":
        ethernet = (
            {"xoff_bytes": 20_000, "k_min_bytes": 5_000, "k_max_bytes": 50_000},
            {"pfc": False, "queue_bytes": 60_000},
            {"mtu": 4200},
            {"ecmp": False, "cut_through": False},
        )[rng.integers(4)]
    elif network == "tcp":
        ethernet = (
            {"queue_bytes": 60_000},
            {"congestion": "dctcp", "mtu": 9000},
            {"interrupt_us": 20.0, "rto_min_ms": 1.0},
            {},
        )[rng.integers(4)]
    watched = ports[rng.permutation(len(ports))[:3]] if rng.random() < 0.6 else ports[:0]
    return PacketOptions(
        seed=int(rng.integers(100)),
        ack_timeout=int(rng.integers(4, 9)),
        retries=int(rng.integers(1, 8)),
        rnr_timer=int(rng.integers(1, 8)),
        fifo=fifo,
        random_arbitration=bool(rng.random() < 0.2),
        placement=bool(rng.random() < 0.8),
        counters_by_sl=bool(rng.random() < 0.3),
        sample_ps=int(rng.choice([0, 700_001])),
        network=network,
        ethernet=ethernet,
        until_ps=20_000 * US,
        watch_ports=tuple(watched.tolist()),
        watch_messages=tuple(range(0, min(len(sent), 40), 7)) if rng.random() < 0.3 else (),
        profile={"vl_blocks": int(rng.choice([150, 600, 2048]))} if rng.random() < 0.4 else {},
    )


def faults_of(rng: np.random.Generator, fabric: Fabric) -> list[TimedFault]:
    """A few faults in time."""
    between = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_peer >= 0) & (fabric.port_num > 0))
    between = between[fabric.is_switch[fabric.port_node[fabric.port_peer[between]]]]
    name = [fabric.port_name(int(port)) for port in rng.choice(between, 3)]
    switch = fabric.node_name(int(rng.choice(np.flatnonzero(fabric.is_switch))))
    return (
        [TimedFault(3 * US, "link-down", name[0]), TimedFault(300 * US, "link-up", name[0])],
        [TimedFault(2 * US, "switch-down", switch), TimedFault(400 * US, "switch-up", switch)],
        [TimedFault(2 * US, "slow-port", name[0], {"gbps": 5.0}), TimedFault(4 * US, "ber", name[1], {"ber": 1e-7})],
        [TimedFault(4 * US, "downgrade", name[2], {"width": 1, "speed": None, "training": 50 * US})],
    )[rng.integers(4)]


class Digest:
    """SHA-256 of arrays and values by name."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()

    def add(self, name: str, value: Any) -> None:
        """Add one value: an array, a dataclass of arrays, or something with a stable repr."""
        if isinstance(value, np.ndarray):
            text = f"{name} {value.shape} "
            data = np.ascontiguousarray(value).tobytes() if value.dtype.names is None else repr(value.tolist()).encode()
            self.sha.update(text.encode() + data)
        elif isinstance(value, dict):
            for key in sorted(value):
                self.add(f"{name}.{key}", value[key])
        else:
            self.sha.update(f"{name} {value!r} ".encode())


def add_outcome(digest: Digest, outcome: Any, fabric: Fabric, options: PacketOptions) -> None:
    """Every column of an outcome, its log and its captures."""
    for f in fields(outcome):
        if f.name not in ("wall_s", "log", "samples", "notes"):
            digest.add(f.name, getattr(outcome, f.name))
    digest.add("notes", tuple(note for note in outcome.notes if "cores" not in note))
    if outcome.samples is not None:
        for name in ("interval_ps", "end_ps", "octets", "queued"):
            digest.add(f"samples.{name}", getattr(outcome.samples, name))
    if outcome.log is not None:
        # Why a packet was lost is a number; it was once that of a column, 12 more.
        reason = (outcome.log.kind == LOG_LOST) & (outcome.log.start >= OLD_REASONS)
        digest.add("log.start", outcome.log.start - OLD_REASONS * reason)
        for name in (
            "kind",
            "port",
            "now",
            "end",
            "stream",
            "psn",
            "octets",
            "dlid",
            "sl",
            "vl",
            "what",
            "flags",
            "came_in",
            "entered",
            "mad",
            "mads",
        ):
            digest.add(f"log.{name}", getattr(outcome.log, name))
        if options.network == "infiniband" and options.watch_ports:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "capture")
                write_capture(outcome.log, fabric, list(options.watch_ports), path)
                digest.add("capture", Path(path).read_bytes())


def digest_of(seed: int) -> tuple[str, str]:
    """(digest, what was run) of the run of ``seed``."""
    rng = np.random.default_rng(seed)
    network = ("infiniband", "infiniband", "infiniband", "infiniband", "roce", "tcp")[rng.integers(6)]
    up, aggregates, text = fabric_of(rng, network)
    sent = traffic(rng, up, aggregates, network)
    options = options_of(rng, network, up.fabric, sent)
    digest = Digest()
    text = f"{network} {text}"
    try:
        if network == "infiniband" and rng.random() < 0.3:
            settings = ManagerSettings(config_of({"engine": "minhop"}) if rng.random() < 0.8 else None)
            faults = faults_of(rng, up.fabric)
            made = run_failures(up.fabric.copy(), sent, faults, replace(options, fifo=False), settings)
            for f in fields(made):
                if f.name != "outcome":
                    digest.add(f.name, getattr(made, f.name))
            add_outcome(digest, made.outcome, up.fabric, options)
            text += f" {faults[0].kind}"
            outcome = made.outcome
        else:
            outcome = run(up.fabric, sent, options)
            add_outcome(digest, outcome, up.fabric, options)
        text += f" {'done' if outcome.done else 'not done'} {outcome.work['events']}"
    except SoftibError as error:
        digest.add("error", str(error))
        text += f" {error}"
    return digest.sha.hexdigest(), text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fabrics", type=int, default=FABRICS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--write", help="a file for the digests")
    parser.add_argument("--against", help="a file of digests to compare with; exit 1 where one differs")
    given = parser.parse_args()
    began = time.process_time()
    lines = []
    for seed in range(given.first, given.first + given.fabrics):
        digest, text = digest_of(seed)
        lines.append(f"{seed} {digest} {text}")
        if not given.against:
            print(lines[-1], flush=True)
    if given.write:
        Path(given.write).write_text("\n".join(lines) + "\n")
    if given.against:
        before = {line.split()[0]: line for line in Path(given.against).read_text().splitlines()}
        differ = [line for line in lines if before[line.split()[0]].split()[1] != line.split()[1]]
        for line in differ:
            print(f"before {before[line.split()[0]]}\nnow    {line}")
        print(
            f"{len(lines) - len(differ)} of {len(lines)} runs give the same bytes; CPU {time.process_time() - began:.0f} s"
        )
        raise SystemExit(bool(differ))


if __name__ == "__main__":
    main()
