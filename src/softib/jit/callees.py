"""What both ways of compiling share: a kernel's function with globals of its own, and the C
functions that it names."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from softib.jit.functions import External, Kernel
from softib.jit.identity import frozen_of

__all__ = ["clone", "declared"]


def clone(function: Callable[..., Any]) -> types.FunctionType:
    """``function`` with globals of its own, in which kernels can be replaced."""
    copy = types.FunctionType(
        function.__code__, dict(function.__globals__), function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return copy


def declared(k: Kernel) -> dict[str, Any]:
    """Numba's declarations of the C functions that ``k`` names, by the name that each has there."""
    return {name: value.declaration() for name, value in frozen_of(k).items() if isinstance(value, External)}
