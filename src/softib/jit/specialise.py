"""Compile a kernel a second time, with some of the kernels that it calls replaced by others.

Some decisions are the same for a whole run (which link technology, which transport). They are made
here, at compile time, instead of at each event. The unit for one choice does not contain the code
of the others, so it is neither slowed down by that code nor compiles it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from softib.jit.functions import External, Kernel
from softib.jit.identity import frozen_of, reached, title

__all__ = ["clone", "declared", "specialised"]


def clone(function: Callable[..., Any]) -> types.FunctionType:
    """Return a copy of ``function`` with separate globals, in which kernels can be replaced."""
    copy = types.FunctionType(
        function.__code__, dict(function.__globals__), function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return copy


def declared(k: Kernel) -> dict[str, Any]:
    """Return Numba's declarations of the C functions that ``k`` names, by their name there."""
    return {name: value.declaration() for name, value in frozen_of(k).items() if isinstance(value, External)}


def specialised(
    top: Kernel,
    name: str,
    replaced: Mapping[Kernel, Kernel],
    constants: Mapping[str, Any] | None = None,
) -> Kernel:
    """Return ``top`` with every kernel in ``replaced`` replaced in all its callers, and with other
    values of ``constants`` (by name, in every kernel that uses one). ``name`` is appended to the
    names of changed kernels; unchanged kernels are shared with ``top``. Raises :class:`ValueError`
    for a replacement that ``top`` does not call or name. This means that the specialisation no
    longer matches the code of ``top``.
    """
    constants = constants or {}
    copies: dict[Kernel, Kernel] = {}
    unused = {title(k) for k in replaced} | set(constants)

    def visit(k: Kernel) -> Kernel:
        if k in copies:
            return copies[k]
        changed: dict[str, Any] = {}
        for key, value in frozen_of(k).items():
            if isinstance(value, Kernel) and value is not k:
                unused.discard(title(value))
                other = visit(replaced.get(value, value))
                if other is not value:
                    changed[key] = other
            elif key in constants:
                unused.discard(key)
                changed[key] = constants[key]
        copies[k] = _with(k, name, changed) if changed else k
        return copies[k]

    copy = visit(top)
    if unused:
        raise ValueError(f"{title(top)} does not use {', '.join(sorted(unused))}; {name} would replace it")
    assert not set(replaced) & set(reached(copy))
    return copy


def _with(k: Kernel, name: str, changed: Mapping[str, Any]) -> Kernel:
    """Return a copy of ``k`` in which the globals ``changed`` have other values."""
    function = clone(k.python)
    function.__globals__.update(changed)
    function.__qualname__ = f"{k.python.__qualname__}.{name}"
    function.__name__ = f"{k.python.__name__}_{name}"
    return Kernel(function, k.options, k.shared, k.steps, k.rows)
