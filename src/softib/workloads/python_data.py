"""Workloads from Python objects: jobs as dicts, traffic matrices as data, traces as Chakra's Node messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.plural import counted
from softib.workloads.workload import Workload, job_of, read

__all__ = ["workload_of"]

HERE = "workload"
"""Location at the beginning of error messages."""


def workload_of(given: Any) -> Workload:
    """Return the workload of jobs, traffic or Chakra nodes (:meth:`Workload.of`). Raises
    :class:`InputError`, one line."""
    from softib.workloads.traffic_data import NAME, traffic_data

    if isinstance(given, Mapping) and "jobs" in given:
        return _file(given)
    if isinstance(given, Mapping) and "pattern" in given:
        return _file({"name": str(given.get("name") or given["pattern"]), "jobs": [given]})
    if isinstance(given, list | tuple) and given:
        if all(isinstance(one, str | Workload) or (isinstance(one, Mapping) and "pattern" in one) for one in given):
            return _together(given)
        if all(isinstance(rank, list | tuple) and rank and hasattr(rank[0], "SerializeToString") for rank in given):
            return _chakra(given)
        if hasattr(given[0], "SerializeToString"):
            return _chakra([given])
    data = traffic_data(given)
    job = job_of("matrix", {"file": NAME}, HERE)
    job._data = data  # type: ignore[attr-defined]
    return Workload(NAME, (job,))


def _file(data: Mapping[str, Any]) -> Workload:
    """Return the workload of data in the form of a workload file."""
    from softib.workloads.file import workload_in

    text = lambda key: HERE + "".join(f"[{k!r}]" for k in key)
    return workload_in(dict(data), lambda key: 0, text, HERE, Path())


def _together(given: Sequence[Any]) -> Workload:
    """Return the workloads ``given`` as one workload."""
    works = [_file({"jobs": [one]}) if isinstance(one, Mapping) else read(one) for one in given]
    if any(work.fabrics for work in works):
        raise InputError(f"{HERE}: an item of a list has its own fabrics; use {{'jobs': […], 'fabrics': {{…}}}}")
    jobs, faults = (tuple(x for work in works for x in getattr(work, of)) for of in ("jobs", "faults"))
    name = works[0].name if len(works) == 1 else f"{counted(len(works), 'job')}"
    return Workload(name, jobs, faults, next((w.management for w in works if w.management is not None), None))


def _chakra(ranks: Sequence[Sequence[Any]]) -> Workload:
    """Return the workload of a Chakra trace: the Node messages of each rank, which a GlobalMetadata message may
    precede."""
    from softib.workloads.traces.chakra import node_of

    name = "Chakra trace"
    job = job_of("trace", {"file": name}, HERE)
    nodes = [[node_of(m) for m in rank if type(m).__name__ != "GlobalMetadata"] for rank in ranks]
    job._data = nodes  # type: ignore[attr-defined]
    return Workload(name, (job,))
