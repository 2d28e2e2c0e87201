"""softib: InfiniBand in software.

>>> import softib
>>> fabric = softib.generate("fat-tree", radix=4, levels=2)
>>> softib.check(fabric)
<Findings: none>

Importing this package loads neither NumPy nor Numba; each name below is loaded where it is first used. The names in
``__all__`` and what their docstrings say are stable: a release that changes one says so before, in the changelog. Every other
module is softib's own inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.errors import (
    InputError,
    LimitError,
    MadTimeout,
    MissingLibrary,
    PeerError,
    SoftibBug,
    SoftibError,
    SoftibWarning,
    TopologyError,
    UnknownFormat,
    UnknownName,
    UnreadableFile,
)

if TYPE_CHECKING:
    from softib.api.fabric import Fabric, generate, load, running
    from softib.api.graph import Drawing
    from softib.api.operations import bring_up, check, diff, predict, report, route, verify
    from softib.api.results import Changes, Findings, Prediction, Report, Routing
    from softib.api.running import RunningFabric, up
    from softib.api.simulation import Simulation, simulate

__version__ = "0.1.0"

_LAZY = {
    **dict.fromkeys(("Fabric", "generate", "load", "running"), "fabric"),
    **dict.fromkeys(("bring_up", "check", "diff", "predict", "report", "route", "verify"), "operations"),
    **dict.fromkeys(("Changes", "Findings", "Prediction", "Report", "Routing"), "results"),
    **dict.fromkeys(("RunningFabric", "up"), "running"),
    **dict.fromkeys(("Simulation", "simulate"), "simulation"),
    "Drawing": "graph",
}
"""Module of :mod:`softib.api` that has each name."""

__all__ = [
    "Changes",
    "Drawing",
    "Fabric",
    "Findings",
    "InputError",
    "LimitError",
    "MadTimeout",
    "MissingLibrary",
    "PeerError",
    "Prediction",
    "Report",
    "Routing",
    "RunningFabric",
    "Simulation",
    "SoftibBug",
    "SoftibError",
    "SoftibWarning",
    "TopologyError",
    "UnknownFormat",
    "UnknownName",
    "UnreadableFile",
    "__version__",
    "bring_up",
    "check",
    "diff",
    "generate",
    "load",
    "predict",
    "report",
    "route",
    "running",
    "simulate",
    "up",
    "verify",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LAZY:
        from softib.errors import nearest

        similar = nearest(name, __all__)
        hint = f"; did you mean {', '.join(similar)}?" if similar and not name.startswith("_") else ""
        raise AttributeError(f"module 'softib' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(f"softib.api.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
