"""What each fast path of docs/fast-paths.md gains over what it repeats, in one process, on the same input.

    python bench/fast_paths.py [NAME …]

A line each: CPU microseconds of the general path and of the fast one (least of several rounds; a round with one right after a
round with the other), and how many times faster it is. Both must give the same, or this ends with an error.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

ROUNDS = 7
REQUESTS = 3000
Work = Callable[[], Any]


def least_us(work: Work, calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - began) / calls * 1e6


def compare(name: str, general: Work, fast: Work, calls: int) -> None:
    """Print one line."""
    general(), fast()  # kernels are compiled now
    a, b = zip(*((least_us(general, calls), least_us(fast, calls)) for _ in range(ROUNDS)), strict=True)
    print(f"{name:44}{min(a):12.1f}{min(b):12.1f}{min(a) / min(b):8.1f}x", flush=True)


def same(a: Any, b: Any) -> None:
    if not np.array_equal(a, b):
        raise SystemExit("the two paths give different results")


def one_path() -> None:
    """A Get(PathRecord) alone: numbers against columns."""
    from tests.sm.sa.asking import Asked

    from softib.fabric.topologies.registry import generate
    from softib.iba.constants import MgmtClass
    from softib.iba.sa import SA_DATA, PathRecord, SaHeader, SaMethod, mask_of
    from softib.mad.batch import MadBatch

    a = Asked(generate("fat-tree", radix=8, levels=2))
    sa, subnet = a.sm.sa_manager.sa, a.sm.sa_manager.subnet
    batch = MadBatch.zeros(1)
    batch.mad[0, :SA_DATA] = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=2,
        method=int(SaMethod.GET),
        attr_id=0x35,
        tid=1,
        comp_mask=mask_of(PathRecord, "slid", "dlid"),
    )
    batch.mad[0, SA_DATA : SA_DATA + 64] = PathRecord.pack(slid=int(subnet.end_lid[0]), dlid=int(subnet.end_lid[9]))
    batch.slid[:], batch.dlid[:], batch.sqp[:] = subnet.end_lid[0], a.lid(a.port), 1
    numbers = sa.one_path

    def general() -> Any:
        sa.one_path = None
        return sa.answer(batch, 0)

    def fast() -> Any:
        sa.one_path = numbers
        return sa.answer(batch, 0)

    same(general().mad, fast().mad)
    compare("one Get(PathRecord)", general, fast, 200)


def lft_lines() -> None:
    """20,000 lines of a dump: columns against a regular expression each."""
    from softib.fabric.formats.base import Problems
    from softib.fabric.formats.lft import parse

    data = b"".join(b"0x%04x %03d : (Channel Adapter portguid 0x%016x: 'h')\n" % (i, i % 36, i) for i in range(20000))

    def none(raw: Any, starts: Any, ends: Any) -> Any:
        empty = np.zeros(len(starts), np.int32)
        return empty, empty, np.zeros(len(starts), bool)

    def general() -> Any:
        with mock.patch.object(parse, "_fixed_columns", none):
            return parse.parse_dump(data, Problems("dump"))

    def fast() -> Any:
        return parse.parse_dump(data, Problems("dump"))

    a, b = general(), fast()
    for left, right in zip(vars(a).values(), vars(b).values(), strict=True):
        if isinstance(left, np.ndarray):
            same(left, right)
    compare("20,000 lines of a dump of tables", general, fast, 1)


@contextmanager
def routed() -> Iterator[tuple[Any, int, np.ndarray]]:
    """A router, a host's port, and a request of it: Get(NodeInfo) of itself as a datagram of ibsim."""
    from softib.agents.plane import AgentPlane
    from softib.fabric.topologies.registry import generate
    from softib.live.mad_router import MadRouter

    fabric = generate("fat-tree", radix=8, levels=2)
    port = int(np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])[0])
    frame = np.zeros(288, np.uint8)
    frame[:2], frame[30] = 255, 1
    frame[32:36], frame[49] = (1, 0x81, 1, 1), 0x11
    frame[64:68] = 255
    yield MadRouter(AgentPlane(fabric)), port, frame


def ping_pong(program: socket.socket, message: np.ndarray, serve: Callable[[], int]) -> float:
    """CPU microseconds of this process a request while another sends :data:`REQUESTS`, each when the last was answered;
    ``serve`` handles what is there and returns how many that were."""
    child = os.fork()
    if not child:
        data = message.tobytes()
        for _ in range(REQUESTS):
            program.send(data)
            program.recv(1024)
        os._exit(0)
    done, began = 0, time.process_time()
    while done < REQUESTS:
        done += serve()
    took = time.process_time() - began
    os.waitpid(child, 0)
    return took / REQUESTS * 1e6


def rounds(name: str, general: Callable[[], float], fast: Callable[[], float]) -> None:
    """Print one line of two that measure themselves."""
    general(), fast()
    a, b = zip(*((general(), fast()) for _ in range(ROUNDS)), strict=True)
    print(f"{name:44}{min(a):12.1f}{min(b):12.1f}{min(a) / min(b):8.1f}x", flush=True)


def answered(router: Any, ready: selectors.BaseSelector, read: Callable[[], object], pumps: bool) -> Callable[[], int]:
    """Serves what is there, by the pump or in Python, and says how many requests that were."""

    def serve() -> int:
        ready.select()
        router.pumps = router.alone = pumps
        before = router.answered
        read()
        return int(router.answered - before)

    return serve


def ibsim_pump() -> None:
    """A client of ibsim that asks, waits and asks again: one call for many requests against Python for each."""
    from softib.live.ibsim.client import Client
    from softib.live.ibsim.server import IbsimServer
    from softib.live.ibsim.sockets import UnixSockets

    with routed() as (router, port, frame):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        ready = selectors.DefaultSelector()
        ready.register(ours, selectors.EVENT_READ)
        client = Client(1, port, ours, None, None, "bench", 0, ready)
        router.join(client)
        client.wait_up_to(50)
        server = IbsimServer(router, UnixSockets(f"softib-fast-paths-{os.getpid()}"))
        general, fast = (answered(router, ready, lambda: server.serve(client), pumps) for pumps in (False, True))
        rounds(
            "ibsim client, a request", lambda: ping_pong(theirs, frame, general), lambda: ping_pong(theirs, frame, fast)
        )
        server.close()


def umad_pump() -> None:
    """The same for a program under our own library."""
    from softib.live.umad.agents import Agent
    from softib.live.umad.file import UmadFile
    from softib.live.umad.requests import UmadRequests

    with routed() as (router, port, frame):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        selector = selectors.DefaultSelector()
        file = UmadFile(router.fabric, 1, port, ours, "bench", 0, selector, lambda: requests.ancillary)
        requests = UmadRequests(router, {1: file})
        router.join(file)
        requests.adopt(file)
        file.table.add(Agent(0, 0x81, 1, 0, 0, False), 0, [])
        message = np.zeros(320, np.uint8)
        message[8:12].view(np.uint32)[0] = 1000
        message[28:30], message[64:] = 255, frame[32:]
        ready = selectors.DefaultSelector()
        ready.register(ours, selectors.EVENT_READ)
        general, fast = (answered(router, ready, lambda: requests.read(file), pumps) for pumps in (False, True))
        rounds(
            "umad program, a request",
            lambda: ping_pong(theirs, message, general),
            lambda: ping_pong(theirs, message, fast),
        )


def one_vl() -> None:
    """Dependencies of all traffic on one VL against those by SL and VL, 1,024 hosts."""
    from tests.sim.trees import three_level

    from softib.routing.proof import credit_loops, reach

    graph, lft = three_level(16)
    at, (lids, ends) = reach.port_map(graph), reach.destinations(graph)
    dropped = np.zeros((2, graph.n_switches + 2), np.int64)

    def general() -> Any:
        return credit_loops.needs_of(graph, at, lft, lids, ends, None, np.zeros(16, np.uint8), 1, dropped)

    def fast() -> Any:
        return credit_loops.needs_of(graph, at, lft, lids, ends, None, None, 1, dropped)

    for a, b in zip(general()[:2], fast()[:2], strict=True):
        same(a, b)
    compare("dependencies on one VL, 1,024 hosts", general, fast, 1)


def changed_tables() -> None:
    """Tables of which few columns changed: those alone against all."""
    from tests.sim.trees import three_level

    from softib.routing.proof import reach
    from softib.routing.proof.reach import ProvenTables

    graph, lft = three_level(32)
    other = lft.copy()
    other[:, graph.end_lid[:8]] = 255
    both, proven = [lft, other], ProvenTables()
    proven.lost_pairs(graph, lft)
    same([proven.lost_pairs(graph, one) for one in both], [reach.lost_pairs(graph, one) for one in both])
    compare(
        "lost pairs, columns of 8 of 8,192 hosts",
        lambda: [reach.lost_pairs(graph, one) for one in both],
        lambda: [proven.lost_pairs(graph, one) for one in both],
        1,
    )


def loads() -> None:
    """All-to-all and all shifts of 256 hosts against the same flows one by one."""
    from tests.sim.trees import two_level

    from softib.sim import static
    from softib.sim.static_network import Network

    network = Network.build(*two_level(16, 16, 16))
    n = network.n_hosts
    src, dst = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    src, dst = src[src != dst], dst[src != dst]

    def flows() -> Any:
        return static.loads(network, src, dst).load

    same(flows(), static.all_to_all(network).load)
    compare("all-to-all of 256 hosts", flows, lambda: static.all_to_all(network).load, 5)

    def each() -> Any:
        i = np.arange(n)
        return np.array([static.loads(network, i, (i + k) % n).load for k in range(1, n)])

    same(each(), static.all_shifts(network, rates=False).load)
    compare("all shifts of 256 hosts", each, lambda: static.all_shifts(network, rates=False).load, 5)


def codec() -> None:
    """A REQ packed and unpacked: one integer against columns of one."""
    from softib.iba.cm import MESSAGES, CmAttr
    from softib.iba.mad_codec import codec as codec_of

    structure = MESSAGES[CmAttr.REQ]
    values = {"service_id": 0x1234, "local_comm_id": 7, "local_qpn": 99, "primary_local_lid": 3, "pkey": 0xFFFF}
    numbers = codec_of(structure)

    def columns() -> Any:
        row = structure.pack(**values)
        return row, {f.name: f.get(row) for f in structure.named()}

    def integer() -> Any:
        data = numbers.pack(**values)
        return data, numbers.unpack(data)

    same(np.frombuffer(integer()[0], np.uint8), columns()[0])
    compare("a CM REQ packed and unpacked", columns, integer, 100)


def goal_text() -> None:
    """GOAL text of 64 ranks in a ring, 100 rounds: a byte at a time by a kernel against the reader of lines."""
    from softib.workloads.traces import goal
    from softib.workloads.traces.goal_text import read_columns

    lines = ["num_ranks 64"]
    for rank in range(64):
        lines.append(f"rank {rank} {{")
        for i in range(100):
            lines += [
                f"s{i}: send 4096b to {(rank + 1) % 64} tag {i}",
                f"r{i}: recv 4096b from {(rank - 1) % 64} tag {i}",
                *([f"s{i} requires r{i - 1}"] if i else []),
            ]
        lines.append("}")
    data = "\n".join(lines).encode()

    def general() -> Any:
        return goal._Text(Path("ring.goal")).read(data)

    def fast() -> Any:
        return read_columns("ring", data, False)

    a, b = general(), fast()
    for column in ("kind", "peer", "size", "tag", "first", "needs"):
        same(getattr(a, column), getattr(b, column))
    compare("GOAL text of 12,800 operations", general, fast, 1)


def shift_phases() -> None:
    """All shifts of 64 hosts: by the loads of links against message by message."""
    from softib.fabric.topologies.registry import generate
    from softib.scenario.bring_up import bring_up
    from softib.sim import fluid
    from softib.sim.fluid import phases
    from softib.sim.paths import Plane

    fabric = generate("fat-tree", m=(8, 8), w=(1, 8), p=(1, 1))
    bring_up(fabric, "ftree")
    plane = Plane(fabric)

    def general() -> Any:
        return [fluid.run(plane, phases.phase(64, k, 100_000), judge=False).end_ps for k in range(1, 64)]

    def fast() -> Any:
        return phases.shift_phases(plane, 100_000).took_ps

    same(general(), fast())
    compare("63 shift phases of 64 hosts, fluid layer", general, fast, 1)


PATHS: dict[str, Work] = {
    "one_path": one_path,
    "lft_lines": lft_lines,
    "ibsim_pump": ibsim_pump,
    "umad_pump": umad_pump,
    "one_vl": one_vl,
    "changed_tables": changed_tables,
    "loads": loads,
    "codec": codec,
    "goal_text": goal_text,
    "shift_phases": shift_phases,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*PATHS, []], default=[])
    print(f"{'CPU microseconds':44}{'general':>12}{'fast':>12}")
    for name in parser.parse_args().names or PATHS:
        PATHS[name]()


if __name__ == "__main__":
    main()
