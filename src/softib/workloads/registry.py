"""The patterns of workloads: those of softib, and those of installed packages (entry points of the group
``softib.workloads``).

The name of an entry point is that of the pattern, and its value is a :class:`~softib.workloads.pattern.Pattern`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, reduce
from operator import or_
from types import GenericAlias
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, create_model

from softib.errors import InputError
from softib.extensions import blamed_on, extensions
from softib.plural import counted
from softib.workloads.hosts import Hosts, rows_of
from softib.workloads.job import Job
from softib.workloads.jobs import WorkloadFile
from softib.workloads.pattern import JobMessages, Pattern, Place
from softib.workloads.patterns import PATTERNS

__all__ = ["job_messages", "patterns", "workload_file"]

GROUP = "softib.workloads"


@cache
def patterns() -> Mapping[str, Pattern]:
    """Return all patterns by name, those of softib first. Warns about entry points that cannot be
    used."""
    built_in = {pattern.name: pattern for pattern in PATTERNS}
    installed = extensions(GROUP, built_in, _check)
    return {
        **built_in,
        **{name: replace(extension.value, package=extension.package) for name, extension in installed.items()},
    }


def workload_file(kinds: Iterable[Pattern] | None = None) -> type[WorkloadFile]:
    """Return the model of a workload file whose jobs are of ``kinds`` (default: all patterns)."""
    return _file_of(tuple(patterns().values() if kinds is None else kinds))


@cache
def _file_of(kinds: tuple[Pattern, ...]) -> type[WorkloadFile]:
    jobs: Any = Annotated[GenericAlias(list, _one_of(kinds)), Field(min_length=1)]
    return create_model(
        "WorkloadFile",
        __base__=WorkloadFile,
        __doc__=WorkloadFile.__doc__,
        jobs=(jobs, ...),
    )


def _one_of(kinds: Iterable[Pattern]) -> Any:
    """Return the type of a job of one of ``kinds``, selected by its field ``pattern``."""
    return Annotated[reduce(or_, (kind.job for kind in kinds)), Field(discriminator="pattern")]


def _check(name: str, value: Any) -> None:
    """Raise :class:`InputError` for a ``value`` that is not a pattern called ``name``."""
    if not isinstance(value, Pattern) or not (isinstance(value.job, type) and issubclass(value.job, Job)):
        raise InputError("the entry point is not a softib.workloads.pattern.Pattern with a subclass of Job")
    if "pattern" not in value.job.model_fields or value.name != name:
        raise InputError(f"its job needs a field pattern: Literal[{name!r}] = {name!r}")
    if not callable(value.messages):
        raise InputError("its messages are not a function")
    TypeAdapter(_one_of((PATTERNS[0], value)))


def job_messages(job: Job, hosts: Hosts, seed: int) -> list[JobMessages]:
    """Return the messages of ``job`` on ``hosts``. Raises :class:`InputError` for too few hosts and
    for a pattern of a package that fails, :class:`LimitError` for more messages than
    :data:`~softib.workloads.pattern.MAX_MESSAGES`."""
    rows = rows_of(job, hosts)
    pattern = patterns()[job.pattern_name]
    if len(rows) < job.fewest_hosts:
        raise InputError(f"{pattern.name} on {counted(len(rows), 'host')}: it needs at least two")
    place = Place(hosts, rows, np.random.default_rng(seed if job.seed is None else job.seed))
    if not pattern.package:
        return pattern.messages(job, place)
    with blamed_on(pattern.package, f"workload pattern {pattern.name}"):
        parts = list(pattern.messages(job, place))
        for messages in parts:
            _check_messages(messages, len(hosts))
        return parts


def _check_messages(m: JobMessages, hosts: int) -> None:
    """Raise ValueError if the columns of messages from a package's pattern are inconsistent."""
    n = len(m.src)
    for name, column, end in (("src", m.src, hosts), ("dst", m.dst, hosts), ("qp", m.qp, n + 1)):
        column = np.asarray(column)
        if column.shape != (n,) or column.dtype.kind not in "iu" or (n and not 0 <= column.min() <= column.max() < end):
            raise ValueError(f"{name} is not a column of {n:,} numbers from 0 to {end - 1:,}")
    if n and np.min(np.broadcast_to(m.size, n)) < 1:
        raise ValueError("size has numbers below 1")
    if len(m.waits) != len(m.needs) or any(len(v) and not 0 <= v.min() <= v.max() < n for v in (m.waits, m.needs)):
        raise ValueError("waits and needs are not rows of messages in pairs")
