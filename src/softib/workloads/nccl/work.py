"""The division of a collective in NCCL: the number of channels and threads for a size, chunks, and loops (from
src/enqueue.cc and the device code of NCCL 2.8.4)."""

from __future__ import annotations

from dataclasses import dataclass

from softib.workloads.nccl.constants import Algorithm, Collective, Protocol
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.tuning import Choice

__all__ = ["BUFFER", "LL128_OCTETS", "LL_OCTETS", "STEPS", "Work", "work_of"]

STEPS = 8
"""Number of steps into which a connection's buffer is divided (NCCL_STEPS)."""
BUFFER = {Protocol.LL: 524_288, Protocol.LL128: 4_915_200, Protocol.SIMPLE: 4_194_304}
"""Bytes of a connection's buffer. LL: 8 steps of 8 lines of 16 bytes for each of 512 threads. LL128: 8 steps of 120
words for each of 640 threads. Simple: 4 MiB."""
PAYLOAD = {Protocol.LL: (1, 2), Protocol.LL128: (15, 16), Protocol.SIMPLE: (1, 1)}
"""Share of payload in the bytes that a protocol writes."""
THREADS = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}
THRESHOLD = {Protocol.LL: 8, Protocol.LL128: 8, Protocol.SIMPLE: 64}
"""If a thread would have fewer bytes than this, NCCL uses fewer channels."""
NVLS_CHUNK = 131_072
RING_CHUNK_STEPS = 4
LINES = 16
"""A chain with LL128 forwards lines of 128 bytes as they arrive. The model approximates this with pieces of 1/16 of a
step."""
LL_OCTETS = 8
"""Bytes that a thread forwards at once with LL (it sends two flags with them); a chain forwards the
data of all threads together."""
LL128_OCTETS = 60
"""Bytes that a thread has in flight with LL128: 8 words of 8 bytes, one in 16 of which is a flag
(NCCL_LL128_SHMEM_ELEMS_PER_THREAD). The latency of a hop is the latency of this number of bytes."""
TREE_CHUNKS = ((8, 131_072), (4, 65_536), (1, 32_768))
"""(chunks per level of the tree, smallest chunk in bytes). While there are fewer chunks than this per level, chunks are
halved, down to the smallest size."""


@dataclass(frozen=True)
class Work:
    """``channels``: number of channels in use; ``threads``: number of threads of each; ``chunks``: rows ``(bytes,
    loops)``, where ``bytes`` is the size of a channel's chunk in each of these loops (in a ring, of each rank's
    share)."""

    channels: int
    threads: int
    chunks: tuple[tuple[int, int], ...]

    @property
    def loops(self) -> int:
        """Return the number of loops of a channel."""
        return sum(count for _, count in self.chunks)


def work_of(collective: Collective, by: Choice, size: int, machine: Machine, nodes: int) -> Work:
    """Return the division of a collective of ``size`` bytes."""
    p, ranks = by.protocol, machine.gpus * nodes
    channels, threads = machine.channels(nodes), THREADS[p]
    threshold = THRESHOLD[p] * (ranks if p == Protocol.LL and by.algorithm == Algorithm.RING else 1)
    while size < channels * threads * threshold:
        if channels >= 2:
            channels -= 1
        elif threads % 128 == 0:
            threads //= 2
        else:
            break
    up, down = PAYLOAD[p]
    full = BUFFER[p] // STEPS * up // down
    shares = 1
    if by.algorithm in (Algorithm.RING, Algorithm.PAT):
        shares = 1 if collective == Collective.BROADCAST else ranks
        if collective == Collective.BROADCAST:
            full = {Protocol.LL: threads * LL_OCTETS, Protocol.LL128: full // LINES}.get(p, full)
        elif p == Protocol.SIMPLE:
            full *= RING_CHUNK_STEPS
    elif (
        by.algorithm in (Algorithm.TREE, Algorithm.COLLNET, Algorithm.NVLS, Algorithm.NVLS_TREE)
        and p == Protocol.SIMPLE
    ):
        depth = max(1, (max(nodes, 1) - 1).bit_length()) + machine.gpus - 1
        for each, least in TREE_CHUNKS:
            while size // (channels * full) < depth * each and full > least:
                full //= 2
    elif by.algorithm == Algorithm.TREE and p == Protocol.LL128:
        levels = 1 + max(nodes, 1).bit_length() - 1 + 0.1 * machine.gpus
        for each, least in ((64, 131_072), (16, 32_768)):
            while size // (channels * full) < levels * each / machine.gpus and full > least:
                full //= 2
    return Work(channels, threads, _loops(size, channels * shares, full))


def _loops(size: int, parts: int, full: int) -> tuple[tuple[int, int], ...]:
    """Return rows (bytes of a chunk, number of loops) if ``size`` bytes are divided into ``parts`` shares: loops with
    chunks of ``full`` bytes, then one loop with the rest in equal chunks. (NCCL rounds these up to the unit of its
    threads, but measurements do not show it.)"""
    whole, rest = divmod(size, parts * full)
    rows = [(full, whole)] if whole else []
    if rest or not rows:
        rows.append((-(-max(rest, 1) // parts), 1))
    return tuple(rows)
