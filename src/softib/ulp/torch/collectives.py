"""Collective operations over the messages of :class:`~softib.ulp.torch.rendezvous.Wire`. Each is a generator that
yields the requests for which it waits.

Every function takes the group's :class:`Channel` first; tensors are contiguous and on the CPU. A reduction combines its
operands in place, in an order that does not depend on the rank that computes it, so that all ranks get bit-identical
results.

Algorithms: ring reduce-scatter and all-gather (Patarasuk and Yuan, 2009), binomial tree broadcast,
dissemination barrier (Hensgen, Finkel and Manber, 1988); up to ``DIRECT`` bytes, every rank sends its data to every
other rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.distributed import ReduceOp

from softib.errors import InputError
from softib.ulp.torch.rendezvous import Request, Wire

__all__ = ["DIRECT", "Channel", "Steps", "finish", "reducer"]


Reduce = Callable[[torch.Tensor, torch.Tensor], object]

REDUCERS: dict[object, Reduce] = {
    ReduceOp.SUM: lambda a, b: a.add_(b),
    ReduceOp.AVG: lambda a, b: a.add_(b),
    ReduceOp.PRODUCT: lambda a, b: a.mul_(b),
    ReduceOp.MIN: lambda a, b: torch.minimum(a, b, out=a),
    ReduceOp.MAX: lambda a, b: torch.maximum(a, b, out=a),
    ReduceOp.BAND: lambda a, b: a.bitwise_and_(b),
    ReduceOp.BOR: lambda a, b: a.bitwise_or_(b),
    ReduceOp.BXOR: lambda a, b: a.bitwise_xor_(b),
}


def reducer(op: object) -> Reduce:
    """Return the function ``f(into, other)`` that reduces ``other`` into ``into`` with ``op``. Raises
    :class:`InputError` if ``op`` is not supported (PREMUL_SUM)."""
    kind = getattr(op, "op", op)
    for operator, act in REDUCERS.items():
        if kind == operator:
            return act
    raise InputError(f"the backend softib has no {kind}; it has {', '.join(str(k).split('.')[-1] for k in REDUCERS)}")


def finish(op: object, tensor: torch.Tensor, size: int) -> None:
    """Finish a reduction: for a mean, divide the sum by ``size``."""
    if getattr(op, "op", op) == ReduceOp.AVG:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(size)
        else:
            tensor.floor_divide_(size)


DIRECT = 16 << 10
"""Largest number of bytes per rank for which every rank computes the whole reduction. This takes fewer steps, but
causes more traffic.
"""

Steps = Iterator[list[Request]]


@dataclass(frozen=True)
class Channel:
    """The messages of one collective, which share a unique tag."""

    wire: Wire
    rank: int
    size: int
    tag: int

    def send(self, peer: int, tensor: torch.Tensor) -> Request:
        """Offer ``tensor`` to ``peer``."""
        return self.wire.isend(peer, self.tag, tensor.data_ptr(), tensor.nbytes)

    def recv(self, peer: int, tensor: torch.Tensor) -> Request:
        """Receive into ``tensor`` from ``peer``."""
        return self.wire.irecv(peer, self.tag, tensor.data_ptr(), tensor.nbytes)

    @property
    def others(self) -> list[int]:
        """Return all other ranks, starting with the next one, so that the ranks do not all contact rank 0 first."""
        return [(self.rank + i) % self.size for i in range(1, self.size)]

    # -- one to all, all to one --

    def broadcast(self, tensor: torch.Tensor, root: int) -> Steps:
        """Copy ``tensor`` of ``root`` to all ranks, in a binomial tree: in round k, the 2^k ranks that have the data
        forward it."""
        place, reach = (self.rank - root) % self.size, 1
        while reach < self.size:
            if place < reach and place + reach < self.size:
                yield [self.send((place + reach + root) % self.size, tensor)]
            elif reach <= place < 2 * reach:
                yield [self.recv((place - reach + root) % self.size, tensor)]
            reach *= 2

    def scatter(self, out: torch.Tensor, parts: Sequence[torch.Tensor], root: int) -> Steps:
        """Send ``parts[r]`` of ``root`` to each rank r."""
        if self.rank != root:
            yield [self.recv(root, out)]
            return
        yield [self.send(peer, parts[peer]) for peer in self.others]
        out.copy_(parts[root])

    def gather(self, parts: Sequence[torch.Tensor], tensor: torch.Tensor, root: int) -> Steps:
        """Send each rank's ``tensor`` to ``parts[r]`` of ``root``."""
        if self.rank != root:
            yield [self.send(root, tensor)]
            return
        yield [self.recv(peer, parts[peer]) for peer in self.others]
        parts[root].copy_(tensor)

    def reduce(self, tensor: torch.Tensor, op: object, root: int) -> Steps:
        """Combine the ``tensor`` of all ranks at ``root``, in rank order."""
        act = reducer(op)
        parts = [torch.empty_like(tensor) for _ in range(self.size)] if self.rank == root else []
        yield from self.gather(parts, tensor, root)
        if self.rank == root:
            self._combine(tensor, parts, act)
            finish(op, tensor, self.size)

    @staticmethod
    def _combine(into: torch.Tensor, parts: Sequence[torch.Tensor], act: object) -> None:
        into.copy_(parts[0])
        for part in parts[1:]:
            act(into, part)  # type: ignore[operator]

    # -- all to all --

    def allgather(self, parts: Sequence[torch.Tensor], tensor: torch.Tensor) -> Steps:
        """Send each rank's ``tensor`` to ``parts[r]`` of all ranks."""
        receives = [self.recv(peer, parts[peer]) for peer in self.others]
        yield [*receives, *(self.send(peer, tensor) for peer in self.others)]
        parts[self.rank].copy_(tensor)

    def alltoall(self, outs: Sequence[torch.Tensor], ins: Sequence[torch.Tensor]) -> Steps:
        """Send ``ins[p]`` to ``outs[rank]`` of rank p."""
        receives = [self.recv(peer, outs[peer]) for peer in self.others]
        yield [*receives, *(self.send(peer, ins[peer]) for peer in self.others)]
        outs[self.rank].copy_(ins[self.rank])

    def allreduce(self, tensor: torch.Tensor, op: object) -> Steps:
        """Combine the ``tensor`` of all ranks, at all ranks."""
        act, flat = reducer(op), tensor.view(-1)
        if flat.nbytes <= DIRECT:
            parts = [torch.empty_like(flat) for _ in range(self.size)]
            yield from self.allgather(parts, flat)
            self._combine(flat, parts, act)
        else:
            chunks = list(flat.tensor_split(self.size))
            yield from self._ring_reduce(chunks, act, shift=0)
            for step in range(self.size - 1):
                out, into = chunks[(self.rank + 1 - step) % self.size], chunks[(self.rank - step) % self.size]
                yield [self.recv((self.rank - 1) % self.size, into), self.send((self.rank + 1) % self.size, out)]
        finish(op, flat, self.size)

    def reduce_scatter(self, out: torch.Tensor, ins: Sequence[torch.Tensor], op: object) -> Steps:
        """Combine ``ins[r]`` of all ranks at rank r. ``ins`` is not changed."""
        act = reducer(op)
        if sum(part.nbytes for part in ins) <= DIRECT:
            parts = [torch.empty_like(out) for _ in range(self.size)]
            yield from self.alltoall(parts, ins)
            self._combine(out, parts, act)
        else:
            chunks = [part.clone() for part in ins]
            yield from self._ring_reduce(chunks, act, shift=-1)
            out.copy_(chunks[self.rank])
        finish(op, out, self.size)

    def _ring_reduce(self, chunks: list[torch.Tensor], act: object, shift: int) -> Steps:
        """Reduce around the ring. Afterwards, rank r has the fully reduced chunk r + 1 + ``shift``."""
        room = torch.empty_like(max(chunks, key=lambda c: c.numel()))
        for step in range(self.size - 1):
            out = chunks[(self.rank + shift - step) % self.size]
            into = chunks[(self.rank + shift - step - 1) % self.size]
            other = room[: into.numel()].view_as(into) if room.dim() == 1 else room
            yield [self.recv((self.rank - 1) % self.size, other), self.send((self.rank + 1) % self.size, out)]
            act(into, other)  # type: ignore[operator]

    def barrier(self) -> Steps:
        """Wait until all ranks have entered, with a dissemination barrier: after round k, every rank knows that 2^(k+1)
        ranks have entered."""
        reach = 1
        sent, received = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
        while reach < self.size:
            yield [
                self.recv((self.rank - reach) % self.size, received),
                self.send((self.rank + reach) % self.size, sent),
            ]
            reach *= 2
