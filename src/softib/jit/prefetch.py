"""Prefetch memory before it is needed: a processor instruction that Numba does not offer."""

from __future__ import annotations

from typing import Any

from softib.jit.functions import External

__all__ = ["prefetch"]

CACHE_LINE = 64
"""Bytes."""


class Prefetch(External):
    """``prefetch(array, row, column)`` in a kernel prefetches the cache line of this element of a
    two-dimensional array. ``prefetch(rows, row, line)`` prefetches a cache line of a row of
    records. No data is read, so any index is allowed. In plain Python it does nothing."""

    def __init__(self) -> None:
        super().__init__("llvm.prefetch", "none")

    def __call__(self, *args: Any) -> None:
        """Do nothing, since prefetching has no effect in plain Python."""

    def declaration(self) -> Any:
        """Return Numba's intrinsic for the prefetch (LLVM's ``llvm.prefetch``: for reading, into all caches, data)."""
        from llvmlite import ir
        from numba.core import types
        from numba.extending import intrinsic
        from numba.np.arrayobj import make_array

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = make_array(signature.args[0])(context, builder, args[0])
            int64, int32, pointer = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
            at = builder.ptrtoint(array.data, int64)
            for i in range(2):
                index = context.cast(builder, args[1 + i], signature.args[1 + i], types.int64)
                records = i >= signature.args[0].ndim
                stride = ir.Constant(int64, CACHE_LINE) if records else builder.extract_value(array.strides, i)
                at = builder.add(at, builder.mul(stride, index))
            signed = ir.FunctionType(ir.VoidType(), [pointer, int32, int32, int32])
            function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), signed)
            builder.call(function, [builder.inttoptr(at, pointer), *(ir.Constant(int32, v) for v in (0, 3, 1))])
            return context.get_dummy_value()

        def prefetch(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
            return types.none(array, row, column), emit

        return intrinsic(prefetch)


prefetch: Any = Prefetch()
