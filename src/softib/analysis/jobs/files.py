"""Jobs from schedulers: Slurm's ``squeue --json``, ``scontrol show job --json`` and ``sacct
--json``, a Kubernetes list of pods, or YAML.

YAML is a mapping from a job's name to its hosts (``train: [node-1, node-2]`` or ``train:
"node-[1-2]"``), or a list of ``{name, hosts, user}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from softib.analysis.jobs.times import pod_span, ran_at, slurm_span
from softib.errors import InputError, LimitError, UnreadableFile
from softib.foreign_text import NAME, shown
from softib.input_files import read_text
from softib.plain_values import load_json
from softib.plain_yaml import load_plain_yaml

__all__ = ["ScheduledJob", "expand_hostlist", "read_hosts", "read_jobs"]


def read_hosts(given: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the distinct host names in order, from a sequence, from a file (the first word of each line; ``#`` starts
    a comment; ``host:8`` and ``host slots=8`` name ``host``), or from a text like ``node[001-016],login``. Raises
    :class:`UnreadableFile` and :class:`InputError` in one line."""
    if not isinstance(given, str | os.PathLike):
        texts, place = [str(t) for t in given], ""
    elif os.path.isfile(given):
        texts, place = _lines(Path(given)), f"{os.fspath(given)}: "
    elif isinstance(given, str) and given.strip() and "/" not in given:
        texts, place = [given], ""
    else:
        raise UnreadableFile(f"{os.fspath(given)!r}: neither a file of hosts nor a list like node[001-016]")
    hosts = list(dict.fromkeys(h for t in texts for h in _expanded(t, place)))
    if not hosts:
        raise InputError(f"{given if isinstance(given, str | os.PathLike) else 'hosts'}: contains no host")
    odd = next(
        (h for h in hosts if h.startswith("-") or not h.isprintable() or any(c in h for c in " \t;|&$`<>'\"\\")), None
    )
    if odd is not None:
        raise InputError(f"{place}{odd[:60]!r} is not a host name")
    return hosts


def _lines(path: Path) -> list[str]:
    first = [line.partition("#")[0].split() for line in read_text(path, "list of hosts").splitlines()]
    return [fields[0].partition(":")[0] for fields in first if fields]


MOST_BYTES = 256 << 20
"""Largest size of a file. (``squeue --json`` writes about 8 KB per job.)"""
MOST_HOSTS, MOST_IN_ALL = 200_000, 4_000_000
DIGITS = 18
SLURM_KEYS = frozenset({"job_state", "state", "nodes", "job_resources"})
"""Keys of which every job in Slurm's output has at least one."""
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "Running"})
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "Pending"})
"""States of jobs that do not run yet or no longer run; their times are planned times."""
OWNER_LABELS = (
    "batch.kubernetes.io/job-name",
    "job-name",
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "app.kubernetes.io/instance",
)
"""Labels of pods that identify their job, the most specific first."""
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")


@dataclass(frozen=True)
class ScheduledJob:
    """A job: ``name`` (with its ID if the scheduler has one), ``user`` or namespace, and the
    scheduler's names of its ``hosts``."""

    name: str
    hosts: tuple[str, ...]
    user: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "user"):
            object.__setattr__(self, field, shown(getattr(self, field), NAME))


def read_jobs(source: str | os.PathLike[str] | Mapping[str, Any], at_s: float | None = None) -> list[ScheduledJob]:
    """Return the running jobs in a file (or in its parsed content), or those that ran at the clock
    time ``at_s`` according to the scheduler (jobs in YAML have no times, and count as running at any time). Raises
    :class:`UnreadableFile` and :class:`InputError` in one line."""
    stated, of = (source, "jobs") if isinstance(source, Mapping) else (_parsed(source), os.fspath(source))
    if isinstance(stated, Mapping) and stated.get("kind") == "Pod":  # kubectl get pod NAME -o json
        stated = {"items": [stated]}
    if isinstance(stated, Mapping) and isinstance(stated.get("jobs"), list):
        _complain(stated, of)
        if any(isinstance(job, Mapping) and "hosts" in job for job in stated["jobs"]):
            return list(_plain(stated["jobs"], of))
        return list(_slurm(stated["jobs"], of, at_s))
    if isinstance(stated, Mapping) and isinstance(stated.get("items"), list):
        return list(_pods(stated["items"], of, at_s))
    if isinstance(stated, Mapping | list):
        return list(_plain(stated, of))
    raise InputError(
        f"{of}: contains no jobs; use the output of squeue --json or kubectl get pods -o json, or YAML lines like "
        f"name: [hosts]"
    )


def _complain(stated: Mapping[str, Any], of: str) -> None:
    """Raise the error that Slurm wrote: if its controller does not answer, Slurm writes a reason instead of jobs."""
    errors = stated.get("errors")
    if not stated["jobs"] and isinstance(errors, list) and errors:
        why = errors[0].get("description") or errors[0].get("error") if isinstance(errors[0], Mapping) else errors[0]
        raise InputError(f"{of}: Slurm reported an error instead of jobs: {' '.join(str(why).split())[:200]}")


def _parsed(path: str | os.PathLike[str]) -> Any:
    shown = os.fspath(path)
    content = read_text(shown, "file of jobs", MOST_BYTES)
    try:
        return load_json(content)
    except ValueError:
        return load_plain_yaml(content, shown, "file of jobs")


def _slurm(jobs: list[Any], of: str, at_s: float | None) -> Iterator[ScheduledJob]:
    total = 0
    for i, job in enumerate(jobs):
        if not isinstance(job, Mapping):
            raise InputError(
                f"{of}: jobs[{i}] is not a job; use the output of squeue --json, which has an object for each job"
            )
        if not SLURM_KEYS & set(job):
            keys = ", ".join(map(str, list(job)[:5])) or "no keys"
            raise InputError(
                f"{of}: jobs[{i}] has {keys}; a job of Slurm has {', '.join(sorted(SLURM_KEYS))}, one of a YAML "
                f"file name and hosts"
            )
        states = _states(job)
        if not (states & RUNNING if at_s is None else _then(states, slurm_span(job, states), at_s)):
            continue
        nodes = _nodes(job)
        if not nodes:
            continue
        name = str(job.get("name") or "")
        number = job.get("job_id")
        label = f"{name} ({number})" if name and number is not None else name or str(number)
        hosts = _expanded(nodes, f"{of}: jobs[{i}]: ")
        total += len(hosts)
        if total > MOST_IN_ALL:
            raise LimitError(f"{of}: the jobs have more than {MOST_IN_ALL:,} hosts in total; use fewer jobs")
        yield ScheduledJob(label, hosts, str(job.get("user_name") or job.get("user") or ""))


def _nodes(job: Mapping[str, Any]) -> str:
    """Return the hostlist of a job, "" if there is none. It is in ``nodes``, or in ``job_resources.nodes`` (a text
    before Slurm 23.11, later an object with ``list`` and ``allocation``)."""
    resources = job.get("job_resources")
    nodes = job.get("nodes") or (resources.get("nodes") if isinstance(resources, Mapping) else None)
    if isinstance(nodes, Mapping):
        allocated = nodes.get("allocation")
        names = (
            [n["name"] for n in allocated if isinstance(n, Mapping) and isinstance(n.get("name"), str)]
            if isinstance(allocated, list)
            else []
        )
        nodes = nodes.get("list") or ",".join(names)
    return nodes if isinstance(nodes, str) and nodes != "None assigned" else ""  # sacct's texts for a job without nodes


def _states(job: Mapping[str, Any]) -> set[str]:
    """Return the states of a job. ``job_state`` is a text (before Slurm 23.11) or a list; ``sacct`` says ``state:
    {current: …}``."""
    state = job.get("job_state")
    if state is None and isinstance(job.get("state"), Mapping):
        state = job["state"].get("current")
    return {str(s) for s in state} if isinstance(state, list) else {"RUNNING" if state is None else str(state)}


def _then(states: set[str], span: tuple[float | None, float | None], at_s: float) -> bool:
    """Return whether the job ran at ``at_s``; False for a job with an unknown end time."""
    ended_sometime = span[1] is None and not states & RUNNING
    return not states & WAITING and not ended_sometime and ran_at(span, at_s)


def _pods(items: list[Any], of: str, at_s: float | None) -> Iterator[ScheduledJob]:
    """Yield the jobs of pods; all pods of one owner are one job. Pods that have no node or have ended are skipped."""
    pods = [p for p in items if isinstance(p, Mapping) and p.get("kind", "Pod") == "Pod"]
    if items and not pods:
        kind = next((str(p.get("kind")) for p in items if isinstance(p, Mapping)), "none")
        raise InputError(f"{of}: contains {kind[:60]} instead of pods; use the output of kubectl get pods -o json")
    hosts: dict[tuple[str, str], dict[str, None]] = {}
    for pod in pods:
        meta, spec, status = (_mapping(pod.get(k)) for k in ("metadata", "spec", "status"))
        node, states = spec.get("nodeName"), {str(status.get("phase", "Running"))}
        if node and (states & RUNNING if at_s is None else _then(states, pod_span(status), at_s)):
            hosts.setdefault((str(meta.get("namespace") or ""), _owner(meta)), {})[str(node)] = None
    for (namespace, name), nodes in hosts.items():
        yield ScheduledJob(name, tuple(nodes), namespace)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _owner(meta: Mapping[str, Any]) -> str:
    labels = _mapping(meta.get("labels"))
    for label in OWNER_LABELS:
        if labels.get(label):
            return str(labels[label])
    owners = meta.get("ownerReferences")
    first = _mapping(owners[0]) if isinstance(owners, list) and owners else {}
    return str(first.get("name") or meta.get("name") or "pod")


def _plain(stated: Mapping[str, Any] | list[Any], of: str) -> Iterator[ScheduledJob]:
    entries = [{"name": n, "hosts": h} for n, h in stated.items()] if isinstance(stated, Mapping) else stated
    for i, entry in enumerate(entries):
        hosts = entry.get("hosts") if isinstance(entry, Mapping) else None
        if isinstance(hosts, str):
            hosts = [hosts]
        if not isinstance(hosts, list) or not hosts or not all(isinstance(h, str | int) for h in hosts):
            name = entry.get("name", i) if isinstance(entry, Mapping) else i
            raise InputError(
                f"{of}: job {name} has no hosts; use a line like train: [node-1, node-2], or squeue --json"
            )
        name = str(entry.get("name", f"job {i + 1}"))
        names = tuple(dict.fromkeys(n for h in hosts for n in _expanded(str(h), f"{of}: job {name[:60]}: ")))
        yield ScheduledJob(name, names, str(entry.get("user", "")))


def _expanded(text: str, place: str) -> tuple[str, ...]:
    try:
        return expand_hostlist(text)
    except (InputError, LimitError) as error:
        raise type(error)(f"{place}{error}") from None


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Expand ``node[001-003,7],login`` as Slurm does: node001, node002, node003, node7, login.
    Raises :class:`InputError`, :class:`LimitError`."""
    hosts: list[str] = []
    for part in _split(text):
        choices = [_choices(piece, text) if i % 2 else [piece] for i, piece in enumerate(_pieces(part, text))]
        total = 1
        for c in choices:
            total *= len(c)
        if len(hosts) + total > MOST_HOSTS:
            raise LimitError(f"{text[:60]}: more than {MOST_HOSTS:,} hosts")
        hosts += ["".join(names) for names in product(*choices)]
    return tuple(dict.fromkeys(hosts))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _pieces(part: str, text: str) -> list[str]:
    """Return the text outside and the text inside brackets, alternately."""
    pieces = re.split(r"[\[\]]", part)
    if len(pieces) % 2 == 0 or re.sub(r"[^][]", "", part) != "[]" * (len(pieces) // 2):
        raise InputError(f"hosts {text[:60]!r}: a bracket is not closed; use for example node[001-004,007]")
    return pieces


def _choices(inside: str, text: str) -> list[str]:
    out: list[str] = []
    for item in inside.split(","):
        item = item.strip()
        if len(item) > 2 * DIGITS:
            raise InputError(f"hosts {text[:60]!r}: a number has more than {DIGITS} digits")
        hit = _RANGE.fullmatch(item)
        if hit and int(hit[1]) <= int(hit[2]):
            if int(hit[2]) - int(hit[1]) >= MOST_HOSTS:
                raise LimitError(f"{text[:60]}: more than {MOST_HOSTS:,} hosts")
            out += [str(n).zfill(len(hit[1])) for n in range(int(hit[1]), int(hit[2]) + 1)]
        elif item.isdecimal():
            out.append(item)
        else:
            raise InputError(f"hosts {text[:60]!r}: {item!r} is not a number or a range like 001-004")
    return out
