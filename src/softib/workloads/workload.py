"""A workload: jobs by pattern, from a line of text, a YAML file or Python, and their messages on
given hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from softib.errors import InputError, LimitError, UnknownName, wrong_value
from softib.input_files import head, uncompressed_name
from softib.plural import counted
from softib.sim.messages import Messages
from softib.workloads.hosts import Hosts
from softib.workloads.job_messages import joined, names_of
from softib.workloads.pattern import MAX_MESSAGES, JobMessages

if TYPE_CHECKING:
    from softib.workloads.faults import Fault, Management
    from softib.workloads.jobs import Job, OtherFabric

__all__ = ["Workload", "WorkloadMessages", "is_workload", "parse", "read"]

SUFFIXES = (".yaml", ".yml")
TRACES = (".goal", ".bin", ".et", ".sqlite")
OF_HOSTS = ("hosts", "targets")
"""Options that are lists of hosts."""
_LINE = re.compile(r"[a-z][a-z0-9-]*[:,][^/]*=")
_WORD = re.compile(r"[a-z][a-z0-9-]*")


class WorkloadMessages(NamedTuple):
    """The messages of a workload on given hosts."""

    messages: Messages
    jobs: tuple[str, ...]
    """Names of the jobs: the rows that ``Messages.job`` points to."""


@dataclass(frozen=True)
class Workload:
    """Jobs that run together, and faults during the run. ``management``: settings of the management plane (None: the
    defaults). ``fabrics``: other fabrics on which jobs run. :meth:`of` creates a workload from text, a file or data;
    ``simulate``, ``compare`` and ``sweep`` also accept all of these.
    """

    name: str
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...] = ()
    management: Management | None = None
    fabrics: Mapping[str, OtherFabric] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Any, *, name: str | None = None) -> Workload:
        """Return the workload ``source``: ``"permutation:2MB"``; the path of a workload file or a
        trace; a dict in the form of a workload file (``{"jobs": […]}``) or of one job
        (``{"pattern": "incast", "size": "64KB"}``); a list of jobs; traffic: ``{(source,
        destination): bytes}``, ``{source: {destination: bytes}}``, rows, a DataFrame of pandas or
        polars with columns source, destination, bytes, or a square array over all hosts; or a list
        of the Node messages of each rank of a Chakra trace. ``name``: the workload's name in results.

        Raises :class:`UnknownName` and :class:`InputError`, one line each.

        >>> import softib
        >>> softib.Workload.of({("host-0001", "host-0002"): "1MB"}, name="mine")
        <Workload 'mine': 1 job>
        """
        workload = read(source)
        return workload if name is None else replace(workload, name=name)

    def of_fabric(self, name: str | None) -> Workload:
        """Return the jobs that run on fabric ``name`` (None: the first one, with its faults). Raises
        :class:`InputError` if there are none."""
        jobs = tuple(job for job in self.jobs if job.fabric == name)
        if not jobs:
            where = "SOURCE; leave the option fabric of a job out" if name is None else f"fabric {name}; leave it out"
            raise InputError(f"{self.name}: no job runs on {where}")
        if name is not None:
            return Workload(self.name, jobs)
        return replace(self, jobs=jobs, fabrics={})

    def on_one_fabric(self) -> Workload:
        """Return the workload with all jobs on the first fabric."""
        return replace(self, jobs=tuple(job.model_copy(update={"fabric": None}) for job in self.jobs), fabrics={})

    def messages(self, hosts: Hosts, seed: int = 0) -> WorkloadMessages:
        """Return the messages on ``hosts``, and the names of their jobs.

        Raises :class:`InputError` if a job cannot run on these hosts, :class:`LimitError` for more
        messages than :data:`~softib.workloads.pattern.MAX_MESSAGES`.
        """
        from softib.workloads.registry import job_messages

        parts: list[tuple[Job, JobMessages]] = []
        for number, job in enumerate(self.jobs):
            try:
                parts += [(job, part) for part in job_messages(job, hosts, seed)]
            except (InputError, LimitError) as error:
                if len(self.jobs) == 1:
                    raise
                kind = LimitError if isinstance(error, LimitError) else InputError  # other errors have other arguments
                raise kind(f"job {number + 1} of {self.name}: {error}") from None
        total = sum(len(part.src) for _, part in parts)
        if total > MAX_MESSAGES:
            raise LimitError(f"{self.name} has {counted(total, 'message')}; a workload has at most {MAX_MESSAGES:,}")
        return WorkloadMessages(joined(parts, hosts), names_of(parts))

    def with_faults(
        self, faults: Sequence[Fault | Mapping[str, Any] | str], management: Mapping[str, Any] | None = None
    ) -> Workload:
        """Return the workload with more faults (:func:`softib.workloads.faults.fault_of`), and
        with other settings of the management plane (keys of ``management`` in a workload file). Raises
        :class:`UnknownName` and :class:`InputError`, one line each."""
        from softib.workloads.faults import Fault, fault_of, management_of

        added = tuple(f if isinstance(f, Fault) else fault_of(f) for f in faults)
        return replace(self, faults=(*self.faults, *added), management=management_of(self.management, management or {}))

    def on_machine(self, path: str) -> Workload:
        """Return the workload with the machine of the file ``path`` set in all GPU jobs that name no machine. If
        ``path`` is empty or the file describes only hosts, the workload is unchanged."""
        from softib.workloads.machine_file import read_machine

        if not path or read_machine(path).gpu is None:
            return self
        return self._on(lambda job: path)

    def on_assumed_machines(self, hosts: Hosts) -> Workload:
        """Return the workload with the machine that is assumed for ``hosts`` set in all GPU jobs that name no machine,
        so that the machine stays the same when links change."""
        return self._on(lambda job: job.assumed_machine(hosts))

    def _on(self, machine_of: Callable[[Job], str]) -> Workload:
        """Return the workload with the machine that ``machine_of`` returns set in each job that names no machine."""
        placed = (
            job.model_copy(update={"machine": machine_of(job)}) if job.assumes_machine else job for job in self.jobs
        )
        return replace(self, jobs=tuple(placed))

    def notes(self, hosts: Hosts) -> list[str]:
        """Return the assumptions of the jobs on ``hosts``, one line each; with several jobs, a line begins with the
        job's name."""
        named = len(self.jobs) > 1
        return [f"{job.name}: {note}" if named and job.name else note for job in self.jobs for note in job.notes(hosts)]

    def figures(self, hosts: Hosts, ended_us: list[float | None]) -> list[dict[str, Any]]:
        """Return, for each row of results, the figures that only its job's pattern has; {} if the job did not end
        (``ended_us`` is None or NaN)."""
        rows: list[dict[str, Any]] = []
        for job in self.jobs:
            end = ended_us[len(rows)] if len(rows) < len(ended_us) else None
            ended = end is not None and end == end
            rows += [job.figures(hosts, end - job.start / 1e6) if ended and end is not None else {}]
            rows += [{}] * (job.result_rows - 1)
        return rows

    @property
    def reduces(self) -> bool:
        """Return whether any job uses reductions in switches."""
        return any(job.reduces for job in self.jobs)

    @property
    def phased(self) -> Job | None:
        """Return the only job, if it is an all-to-all with barriers, which
        :mod:`softib.sim.fluid.phases` runs."""
        return self.jobs[0] if len(self.jobs) == 1 and getattr(self.jobs[0], "barrier", False) else None

    def __repr__(self) -> str:
        return f"<Workload {self.name!r}: {counted(len(self.jobs), 'job')}>"


def read(source: Any) -> Workload:
    """Return the workload of ``source``: a workload, a YAML file, a trace,
    ``pattern:size,option=value`` (:func:`parse`), or data
    (:func:`softib.workloads.python_data.workload_of`)."""
    if isinstance(source, Workload):
        return source
    if not isinstance(source, str | os.PathLike):
        from softib.workloads.python_data import workload_of

        return workload_of(source)
    text = os.fspath(source)
    if _is_trace(text):
        return Workload(text, (job_of("trace", {"file": text}, text),))
    if _LINE.match(text) and not Path(text).is_file():  # a text that ends with an option that names a file
        return parse(text)
    if Path(text).suffix in SUFFIXES or (os.sep in text and Path(text).is_file()):
        from softib.workloads.file import read_file

        if Path(text).suffix not in SUFFIXES:
            _refuse_traces(Path(text))
        return read_file(Path(text))
    return parse(text)


def is_workload(text: str) -> bool:
    """Return whether :func:`read` would read ``text`` as a workload: a pattern with its options, a trace, or a file of
    jobs."""
    from softib.workloads.registry import patterns

    pattern, *options = re.split(r"[:,]", text, maxsplit=1)
    if pattern.strip() in patterns() or _is_trace(text) or Path(text).suffix in SUFFIXES:
        return True
    return bool(options and _WORD.fullmatch(pattern)) and not Path(text).exists()


def _is_trace(text: str) -> bool:
    """Return whether ``text`` is the file of a trace. Its suffix decides; a JSON file is a trace if it begins like a
    profile of PyTorch."""
    if text.startswith("trace:") or Path(text).suffix in TRACES:
        return not text.startswith("trace:")
    profile = uncompressed_name(text).suffix == ".json" and Path(text).is_file()
    return profile and any(key in head(text, 4096) for key in (b'"schemaVersion"', b'"traceEvents"'))


def _refuse_traces(path: Path) -> None:
    """Raise :class:`InputError` for a trace in a format that softib does not read."""
    from softib.workloads.traces.forms import refuse

    refuse(path, head(path, 64))


def parse(text: str) -> Workload:
    """Return the workload of a line of text: ``permutation``, ``permutation:2MB``,
    ``incast:64KB,senders=16,start=10us``, ``mpi-barrier,ranks=4``. The line has a pattern, its size, and its options.
    Raises :class:`UnknownName` for a pattern or option that does not exist (with similar names), :class:`InputError`
    for a wrong value.
    """
    from softib.workloads.registry import patterns

    by_name = patterns()
    pattern, colon, rest = text.partition(":")
    if "," in pattern:  # options without a size: mpi-barrier,ranks=4
        pattern, colon, rest = text.partition(",")
    pattern = pattern.strip()
    if pattern not in by_name:
        name, _, options = text.partition(",")
        if Path(name).suffix in TRACES:
            raise InputError(f"{text}: for a trace with options use trace:{name},{options}")
        if os.sep in text and Path(text).is_dir():
            raise InputError(f"{text} is a directory; a workload is a pattern, a YAML file of jobs or a trace in it")
        hint = "" if _WORD.fullmatch(pattern) else f" (a file of jobs ends in {' or '.join(SUFFIXES)})"
        raise InputError(f"{UnknownName('workload pattern', pattern, by_name)}{hint}")
    given: dict[str, Any] = {}
    for number, piece in enumerate(rest.split(",") if rest else []):
        key, equals, value = (s.strip() for s in piece.partition("="))
        if not equals and number == 0 and colon == ":":
            key, value = by_name[pattern].job.first_word, key
        elif not equals:
            raise InputError(f"{text}: {piece.strip()!r} is not an option; use for example {pattern}:2MB,seed=1")
        key = key.replace("-", "_")
        if key in given:
            raise InputError(f"{text}: {key} occurs twice")
        if key == "fabric":
            raise InputError(f"{text}: fabric is only an option of jobs in a file with a section fabrics")
        given[key] = [v for v in value.split("+") if v] if key in OF_HOSTS else value
    return Workload(text, (job_of(pattern, given, text),))


def job_of(pattern: str, given: dict[str, Any], where: str) -> Job:
    """Return the job of ``pattern`` with these options; errors are one line that begins with
    ``where``."""
    from pydantic import ValidationError

    from softib.workloads.registry import patterns

    kind = patterns()[pattern].job
    try:
        return kind.model_validate(given)
    except ValidationError as invalid:
        raise InputError(f"{where}: {message_of(invalid.errors()[0], kind)}") from None


def message_of(error: Any, kind: type[Job] | None) -> str:
    """Return one line with the error of one option, and how to fix it."""
    key = str(next((p for p in reversed(error["loc"]) if isinstance(p, str)), ""))
    if error["type"] == "extra_forbidden" and kind is not None:
        names = [f for f in kind.model_fields if f != "pattern"]
        return str(UnknownName(f"option of {kind.model_fields['pattern'].default}", key, names))
    if error["type"] == "missing":
        return f"{key} is missing"
    return wrong_value(key, error)
