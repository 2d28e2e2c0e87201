"""The process group that ``torch.distributed`` calls. In a recorded program (``softib run --record``), it also records
the start and end of each collective."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist

from softib.errors import InputError
from softib.live.recording import COLLECTIVES
from softib.ulp.torch.collectives import Channel, Steps
from softib.ulp.torch.rendezvous import Links, Wire
from softib.ulp.torch.worker import Task, Worker

__all__ = ["SoftibProcessGroup", "noter"]


Note = Callable[[int, bool], None]
MOST = (1 << 32) - 1


@cache
def _library() -> Callable[[int, int, int], None] | None:
    """Return ``softib_record_collective`` of libsoftib-verbs.so; None if this program is not
    recorded."""
    if not os.environ.get("SOFTIB_RECORD"):
        return None
    call = getattr(ctypes.CDLL(None), "softib_record_collective", None)
    if call is not None:
        call.argtypes, call.restype = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int], None
    return call


def noter(name: str) -> Note | None:
    """Return a function that records the start (bytes, True) and the end (0, False) of torch's collective ``name`` in
    the calling thread. None if the program is not recorded."""
    call = _library()
    if call is None:
        return None
    number = COLLECTIVES.constant(f"TORCH_{name.upper()}")
    return lambda octets, begins: call(number, min(octets, MOST) if begins else 0, int(begins))


SINGLE = 1 << 63
"""Tag bit of single messages. The tags of collectives are numbers without this bit."""
Ready = tuple[torch.Tensor, Callable[[], object]]


def _flat(tensor: torch.Tensor) -> Ready:
    """Return ``tensor`` as contiguous memory, and a function that copies the result back if needed.
    Raises :class:`InputError` for a tensor that is not in host memory, or sparse."""
    if tensor.device.type != "cpu":
        raise InputError(f"the backend softib moves host memory; this tensor is on {tensor.device}: use tensor.cpu()")
    if tensor.layout != torch.strided:
        raise InputError(f"the backend softib moves dense tensors; this one is {tensor.layout}: use tensor.to_dense()")
    detached = tensor.detach()
    if detached.is_contiguous():
        return detached, lambda: None
    copy = detached.contiguous()
    return copy, lambda: detached.copy_(copy)


def _flats(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Callable[[], None]]:
    ready = [_flat(tensor) for tensor in tensors]

    def back() -> None:
        for _, act in ready:
            act()

    return [tensor for tensor, _ in ready], back


class SoftibWork(dist.Work):
    """The handle of a running operation. (torch also provides a wrapper around a future, but it swallows the error.)"""

    def __init__(self, task: Task):
        super().__init__()
        self._task = task

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation has ended. Raises its error. The group's timeout applies;
        ``timeout`` is ignored."""
        self._task.settled.wait()
        if self._task.error is not None:
            raise self._task.error
        return True

    def is_completed(self) -> bool:
        """Return whether the operation has ended, with or without an error."""
        return self._task.settled.done()

    def get_future(self) -> torch.futures.Future:
        """Return the future that will have the result or the error."""
        return self._task.future


class SoftibProcessGroup(dist.ProcessGroup):
    """A process group over ``links``. Its collectives run in the order of the calls; sends and receives run
    concurrently. ``Work.wait`` raises their errors."""

    def __init__(self, rank: int, size: int, timeout: timedelta, links: Links):
        super().__init__(rank, size)
        self._links = links
        self._worker = Worker(Wire(links), timeout.total_seconds(), f"softib-rank-{rank}")
        self._numbers = itertools.count(1)
        self._name = self._desc = ""

    # torch stores these attributes in a group's backends, and this group is its own backend. Device meshes
    # look up the group by its name, so FSDP and DTensor need a name.

    def setGroupName(self, name: str) -> None:
        """Set torch's name of this group."""
        self._name = name

    def getGroupName(self) -> str:
        """See :meth:`setGroupName`."""
        return self._name

    def setGroupDesc(self, desc: str) -> None:
        """Set a description."""
        self._desc = desc

    def getGroupDesc(self) -> str:
        """See :meth:`setGroupDesc`."""
        return self._desc

    def getBackendName(self) -> str:
        """Return the name that ``torch.distributed.get_backend`` returns."""
        return "softib"

    def _run(
        self,
        name: str,
        moved: Sequence[torch.Tensor],
        result: Any,
        begin: Callable[[Channel], Steps],
        back: Callable[[], object],
    ) -> dist.Work:
        """Submit a collective. ``moved``: the tensors whose sizes are recorded."""
        channel = Channel(self._worker.wire, self.rank(), self.size(), next(self._numbers))

        def steps() -> Steps:
            yield from begin(channel)
            back()

        note, octets = noter(name), sum(t.nbytes for t in moved)
        noted = None if note is None else partial(note, octets)
        return SoftibWork(self._worker.submit(Task(steps, result, name, noted)))

    # -- collectives; names and arguments are torch's --

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Copy ``tensors[0]`` of rank ``opts.rootRank`` to every rank."""
        flat, back = _flat(tensors[0])
        return self._run("broadcast", [flat], tensors, lambda c: c.broadcast(flat, opts.rootRank), back)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Combine ``tensors[0]`` of all ranks, at every rank."""
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Combine each of ``tensors`` of all ranks, at every rank."""
        flats, back = _flats(tensors)

        def begin(c: Channel) -> Steps:
            for flat in flats:
                yield from c.allreduce(flat, opts.reduceOp)

        return self._run("all_reduce", flats, tensors, begin, back)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Combine ``tensors[0]`` of all ranks at rank ``opts.rootRank``."""
        flat, back = _flat(tensors[0])
        return self._run("reduce", [flat], tensors, lambda c: c.reduce(flat, opts.reduceOp, opts.rootRank), back)

    def allgather(self, outs: list[list[torch.Tensor]], tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Copy ``tensors[0]`` of rank r to ``outs[0][r]`` of every rank."""
        parts, back = _flats(outs[0])
        flat, _ = _flat(tensors[0])
        return self._run("all_gather", [flat], outs, lambda c: c.allgather(parts, flat), back)

    def _allgather_base(self, out: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> dist.Work:
        whole, back = _flat(out)
        flat, _ = _flat(tensor)
        parts = whole.view(self.size(), -1).unbind()
        return self._run("all_gather", [flat], out, lambda c: c.allgather(parts, flat.view(-1)), back)

    all_gather_single = _allgather_base

    def reduce_scatter(self, outs: list[torch.Tensor], ins: list[list[torch.Tensor]], opts: Any) -> dist.Work:
        """Combine ``ins[0][r]`` of all ranks into ``outs[0]`` of rank r."""
        out, back = _flat(outs[0])
        flats, _ = _flats(ins[0])
        return self._run("reduce_scatter", [out], outs, lambda c: c.reduce_scatter(out, flats, opts.reduceOp), back)

    def _reduce_scatter_base(self, out: torch.Tensor, tensor: torch.Tensor, opts: Any) -> dist.Work:
        whole, back = _flat(out)
        parts = _flat(tensor)[0].view(self.size(), -1).unbind()
        return self._run(
            "reduce_scatter", [whole], out, lambda c: c.reduce_scatter(whole.view(-1), parts, opts.reduceOp), back
        )

    reduce_scatter_single = _reduce_scatter_base

    def alltoall(self, outs: list[torch.Tensor], ins: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Copy ``ins[p]`` to ``outs[rank]`` of rank p."""
        to, back = _flats(outs)
        flats, _ = _flats(ins)
        return self._run("all_to_all", flats, outs, lambda c: c.alltoall(to, flats), back)

    def alltoall_base(
        self, out: torch.Tensor, tensor: torch.Tensor, out_sizes: list[int], in_sizes: list[int], opts: Any = None
    ) -> dist.Work:
        """Run :meth:`alltoall` on the rows of one tensor, split evenly if no sizes are given."""
        whole, back = _flat(out)
        flat, _ = _flat(tensor)
        targets, sources = self._split(whole, out_sizes), self._split(flat, in_sizes)
        return self._run("all_to_all", [flat], out, lambda c: c.alltoall(targets, sources), back)

    all_to_all_single = alltoall_base

    def _split(self, tensor: torch.Tensor, sizes: list[int]) -> Sequence[torch.Tensor]:
        if not sizes and tensor.shape[0] % self.size():
            raise InputError(
                f"{tensor.shape[0]} rows cannot be split evenly over {self.size()} ranks; give the split sizes"
            )
        return tensor.split(list(sizes) or tensor.shape[0] // self.size()) if tensor.numel() else [tensor] * self.size()

    def gather(self, outs: list[list[torch.Tensor]], tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Copy ``tensors[0]`` of rank r to ``outs[0][r]`` of rank ``opts.rootRank``."""
        parts, back = _flats(outs[0] if outs else [])
        flat, _ = _flat(tensors[0])
        return self._run("gather", [flat], outs, lambda c: c.gather(parts, flat, opts.rootRank), back)

    def scatter(self, outs: list[torch.Tensor], ins: list[list[torch.Tensor]], opts: Any) -> dist.Work:
        """Copy ``ins[0][r]`` of rank ``opts.rootRank`` to ``outs[0]`` of rank r."""
        out, back = _flat(outs[0])
        parts, _ = _flats(ins[0] if ins else [])
        return self._run("scatter", [out], outs, lambda c: c.scatter(out, parts, opts.rootRank), back)

    def barrier(self, opts: Any = None) -> dist.Work:
        """Wait until all ranks have entered."""
        return self._run("barrier", [], [], lambda c: c.barrier(), lambda: None)

    # -- single messages --

    def _single(self, name: str, tensors: list[torch.Tensor], send: bool, peer: int | None, tag: int) -> dist.Work:
        flat, back = _flat(tensors[0])
        wire, mark = self._worker.wire, SINGLE | tag

        def steps() -> Steps:
            act = wire.isend if send else wire.irecv
            yield [act(peer, mark, flat.data_ptr(), flat.nbytes)]  # type: ignore[arg-type]
            if not send:
                back()

        return SoftibWork(self._worker.submit(Task(steps, tensors, name), ordered=False))

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> dist.Work:
        """Send ``tensors[0]`` to rank ``peer``."""
        return self._single("send", tensors, True, peer, tag)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> dist.Work:
        """Receive ``tensors[0]`` from rank ``peer``."""
        return self._single("recv", tensors, False, peer, tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        """Receive ``tensors[0]`` from the first rank that sends with ``tag``."""
        return self._single("recv", tensors, False, None, tag)

    # -- the end --

    def shutdown(self) -> None:
        """Release the device."""
        self._worker.close()
        self._links.close()

    abort = shutdown
