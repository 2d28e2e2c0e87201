"""A workload file (``workload.yaml``): jobs that run together, each with its pattern, service level
and start.

name: storage beside training
jobs:
- {pattern: all-to-all, size: 1MB, hosts: 0-7, name: training}
- {pattern: incast, size: 64KB, hosts: 8-15, sl: 1, start: 10us, name: storage}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, UnknownName
from softib.workloads.machine_file import is_machine_file
from softib.workloads.workload import Workload, message_of

if TYPE_CHECKING:
    from softib.workloads.pattern import Pattern

__all__ = ["read_file", "workload_in", "workload_schema"]

Key = tuple[str | int, ...]
Order = Callable[[Key], int]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def read_file(path: Path) -> Workload:
    """Read the workload file ``path``; file names in it are relative to its folder. Raises :class:`InputError`, one
    line with file and line number."""
    from softib.plain_yaml import load_yaml

    data, lines = load_yaml(path, "workload file", "jobs:")
    return workload_in(data, lambda key: lines.of(key), lambda key: f"{path}:{lines.of(key)}", path.stem, path.parent)


def workload_in(data: Any, order: Order, place: Callable[[Key], str], name: str, folder: Path) -> Workload:
    """Return the workload in ``data``, the content of a workload file; file names in it are relative to ``folder``. If
    there are errors, raise the one that is first in the order of the key ``order``; its message begins with the result
    of ``place``."""
    from pydantic import ValidationError

    from softib.workloads.registry import patterns, workload_file

    data, written = _with_underscores(_in_folder(data, folder))
    path = lambda error: tuple(written.get(key, key) for key in _path(error))
    try:
        spec = workload_file().model_validate(data)
    except ValidationError as invalid:
        error = min(invalid.errors(), key=lambda e: (order(path(e)), e["type"] == "missing"))
        raise InputError(f"{place(path(error))}: {_message(error, patterns())}") from None
    jobs = []
    for job in spec.jobs:
        if job.first_word == "file":
            job = job.model_copy(update={"file": str(folder / Path(getattr(job, job.first_word)).expanduser())})
        jobs.append(job)
    for number, job in enumerate(jobs):
        if job.fabric is not None and job.fabric not in spec.fabrics:
            raise InputError(
                f"{place(('jobs', number, 'fabric'))}: {UnknownName('fabric of the file', job.fabric, spec.fabrics)}"
            )
    local = {name: folder / Path(other.source).expanduser() for name, other in spec.fabrics.items()}
    fabrics = {
        name: other.model_copy(update={"source": str(local[name])}) if local[name].exists() else other
        for name, other in spec.fabrics.items()
    }
    return Workload(spec.name or name, tuple(jobs), tuple(spec.faults), spec.management, fabrics)


def _in_folder(data: Any, folder: Path) -> Any:
    """Return ``data`` with absolute paths for the files of settings, groups and machines that its jobs name."""
    jobs = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(jobs, list):
        return data
    named = lambda job: {
        k: str(folder / Path(job[k]).expanduser())
        for k in ("megatron", "deepspeed", "groups", "machine")
        if isinstance(job.get(k), str) and (k != "machine" or is_machine_file(job[k]))
    }
    return {**data, "jobs": [{**job, **named(job)} if isinstance(job, Mapping) else job for job in jobs]}


def _with_underscores(data: Any) -> tuple[Any, dict[str | int, str]]:
    """Return (``data`` with each option of its jobs renamed to the field, for example ``queue-depth`` to
    ``queue_depth``; the original spelling of each option)."""
    written: dict[str | int, str] = {}
    jobs = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(jobs, list):
        return data, written

    def plain(job: Any) -> Any:
        if not isinstance(job, Mapping):
            return job
        names = {key: key.replace("-", "_") if isinstance(key, str) else key for key in job}
        if len(set(names.values())) < len(names):  # an option that is given in both spellings is an error
            return job
        written.update({name: key for key, name in names.items() if name != key})
        return {names[key]: value for key, value in job.items()}

    return {**data, "jobs": [plain(job) for job in jobs]}, written


def workload_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a workload file with softib's own patterns."""
    from softib.workloads.patterns import PATTERNS
    from softib.workloads.registry import workload_file

    return {"$schema": DIALECT, **workload_file(PATTERNS).model_json_schema(), "title": "softib workload.yaml"}


def _path(error: Any) -> tuple[str | int, ...]:
    """Return the location of an error in the file, without the pattern (in a fault: the kind) that pydantic inserts
    between the job and its key."""
    path = tuple(error["loc"])
    return (*path[:2], *path[3:]) if len(path) > 2 and path[0] in ("jobs", "faults") else path


def _message(error: Any, patterns_by_name: Mapping[str, Pattern]) -> str:
    from softib.workloads.faults import message_of_fault, message_of_management

    loc = error["loc"]
    if loc[0] == "faults" and len(loc) > 1:
        return message_of_fault(error, tuple(loc[2:]))
    if loc[0] == "management" and len(loc) > 1:
        return message_of_management(error)
    if error["type"] == "union_tag_invalid":
        return str(UnknownName("workload pattern", str(error["ctx"]["tag"]), patterns_by_name))
    if error["type"] == "union_tag_not_found":
        return f"a job needs its pattern: {', '.join(patterns_by_name)}"
    if error["type"] == "extra_forbidden" and len(loc) == 1:
        return str(
            UnknownName("key of a workload file", str(loc[0]), ("name", "jobs", "fabrics", "faults", "management"))
        )
    kind = patterns_by_name.get(str(loc[2])) if len(loc) > 2 else None
    return message_of(error, kind.job if kind else None)
