"""``torch.distributed``'s reduction operators, in place, always in the same order so that every
rank has the same bits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed import ReduceOp

from softib.errors import InputError

__all__ = ["finish", "reducer"]

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
    """``f(into, other)`` of ``op``. Raises :class:`InputError` where there is none (PREMUL_SUM)."""
    kind = getattr(op, "op", op)
    for known, act in REDUCERS.items():
        if kind == known:
            return act
    raise InputError(f"the backend softib has no {kind}; it has {', '.join(str(k).split('.')[-1] for k in REDUCERS)}")


def finish(op: object, tensor: torch.Tensor, size: int) -> None:
    """What is left to do once everything is summed: the mean's division."""
    if getattr(op, "op", op) == ReduceOp.AVG:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(size)
        else:
            tensor.floor_divide_(size)
