"""Count the climbs of the walks on the architecture page: how often a reader who follows a run goes back up to a higher layer.

A walk is a call of the library. It runs under a profiler, which notes each module of softib at the moment in which the run
first enters it. A climb is a module on a higher layer than the module noted before it. Layers are those of the import contract
(``storeys`` in pyproject.toml). Packages that a walk only asks, and that have walks of their own (the management of devices, the
specification, helpers without a layer of their own), are left out: each walk names the packages that it is about.

python docs/count_climbs.py [WALK]     # prints each walk, a module a line, climbs marked with ^
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import softib

ROOT = Path(__file__).resolve().parents[1]
SOURCE = str(ROOT / "src" / "softib") + "/"
WORKLOAD = """\
jobs:
- {pattern: permutation, size: 256KB}
faults:
- {at: 20us, kind: link-down, where: "leaf-1[6]"}
"""


class Walk(NamedTuple):
    """``run`` walks with a folder for its files; only modules of ``packages`` count; ``limit``: climbs at most."""

    run: Callable[[Path], object]
    packages: frozenset[str]
    limit: int


def workload_to_time(folder: Path) -> object:
    """A workload file with a fault, on a fabric file, to the time at which its last message arrives."""
    path = folder / "workload.yaml"
    path.write_text(WORKLOAD)
    fabric = softib.load(ROOT / "examples" / "small.yaml")
    return softib.simulate(fabric, path, layer="packet").simulated_us


def file_to_finding(folder: Path) -> object:
    """A dump of ibnetdiscover to its findings."""
    return softib.check(ROOT / "examples" / "site" / "as-found.ibnetdiscover").of


WALKS = {
    "workload → time": Walk(workload_to_time, frozenset({"api", "analysis", "workloads", "scenario", "sim"}), 3),
    "file → finding": Walk(
        file_to_finding, frozenset({"api", "source", "fabric", "analysis", "scenario", "routing", "diags"}), 4
    ),
}
"""The walks of softib in Python; that of a message is C, and that of a MAD is one call of ``agents``."""


def layers() -> dict[str, int]:
    """Layer of each package of softib, the lowest 0."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(c["layers"] for c in contracts if c["id"] == "storeys")
    return {
        name.strip(" ()").removeprefix("softib."): layer
        for layer, row in enumerate(reversed(rows))
        for name in row.split("|")
    }


def entered(walk: Walk) -> list[str]:
    """The modules of ``walk`` in the order in which it first enters them. A first run performs the
    late imports."""
    order: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(SOURCE):
            order.setdefault(code.co_filename.removeprefix(SOURCE).removesuffix(".py").replace("/", "."))

    with tempfile.TemporaryDirectory() as folder:
        walk.run(Path(folder))
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            walk.run(Path(folder))
        finally:
            sys.setprofile(before)
    return [name for name in order if name.split(".")[0] in walk.packages]


def climbs(modules: list[str]) -> list[str]:
    """The modules on a higher layer than the one before them."""
    layer = layers()
    level = [layer[name.split(".")[0]] for name in modules]
    return [name for name, here, before in zip(modules[1:], level[1:], level, strict=False) if here > before]


def main() -> None:
    """Print the walks that are asked for, or all."""
    for name, walk in WALKS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        modules = entered(walk)
        up = climbs(modules)
        print(f"{name}: {len(up)} climbs, {len(modules)} modules")
        for module in modules:
            print(f"  {'^' if module in up else ' '} {layers()[module.split('.')[0]]:2} {module}")


if __name__ == "__main__":
    main()
