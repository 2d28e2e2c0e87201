"""Jobs as schedulers tell them: Slurm's ``squeue --json`` and ``scontrol show job --json``, a Kubernetes list of pods, or YAML.

YAML is a mapping from a job's name to its hosts (``train: [node-1, node-2]`` or ``train: "node-[1-2]"``), or a list of ``{name, hosts, user}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from softib.errors import InputError, LimitError, UnreadableFile

__all__ = ["ScheduledJob", "expand_hostlist", "read_jobs"]

MOST_HOSTS = 200_000
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "Running"})
OWNER_LABELS = (
    "batch.kubernetes.io/job-name", "job-name", "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "volcano.sh/job-name",
    "ray.io/cluster", "app.kubernetes.io/instance",
)  # fmt: skip
"""Labels of pods that say which job a pod is a part of, the most telling first."""
_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class ScheduledJob:
    """``name`` (with its ID where the scheduler has one), ``user`` or namespace, and the ``hosts`` by the names that the scheduler has for them."""

    name: str
    hosts: tuple[str, ...]
    user: str = ""


def read_jobs(source: str | os.PathLike[str] | Mapping[str, Any]) -> list[ScheduledJob]:
    """The running jobs of a file (or of what was parsed from one). Raises :class:`UnreadableFile` and :class:`InputError` in one line."""
    told, of = (source, "jobs") if isinstance(source, Mapping) else (_parsed(source), os.fspath(source))
    if isinstance(told, Mapping) and isinstance(told.get("jobs"), list):
        return list(_slurm(told["jobs"], of))
    if isinstance(told, Mapping) and isinstance(told.get("items"), list):
        return list(_pods(told["items"]))
    if isinstance(told, Mapping | list):
        return list(_plain(told, of))
    raise InputError(
        f"{of}: no jobs in it; give squeue --json, a Kubernetes list of pods (kubectl get pods -o json), or YAML: name: [hosts]"
    )


def _parsed(path: str | os.PathLike[str]) -> Any:
    try:
        return yaml.safe_load(Path(path).read_text("utf-8"))  # JSON is YAML
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableFile(f"{os.fspath(path)}: no file of jobs: {str(error).splitlines()[0]}") from None


def _slurm(jobs: list[Any], of: str) -> Iterator[ScheduledJob]:
    for i, job in enumerate(jobs):
        if not isinstance(job, Mapping):
            raise InputError(f"{of}: jobs[{i}] is no job; squeue --json writes an object for each")
        state = job.get("job_state", "RUNNING")
        states = {str(s) for s in state} if isinstance(state, list) else {str(state)}
        if not states & RUNNING:
            continue
        resources = job.get("job_resources")
        nodes = job.get("nodes") or (resources.get("nodes") if isinstance(resources, Mapping) else None)
        if isinstance(nodes, Mapping):  # Slurm 23.11 and later
            nodes = nodes.get("list")
        if not isinstance(nodes, str) or not nodes:
            continue
        name = str(job.get("name") or "")
        number = job.get("job_id")
        label = f"{name} ({number})" if name and number is not None else name or str(number)
        yield ScheduledJob(label, expand_hostlist(nodes), str(job.get("user_name") or ""))


def _pods(items: list[Any]) -> Iterator[ScheduledJob]:
    """Pods of one owner are one job. Those that run on no node yet, or have ended, are left out."""
    hosts: dict[tuple[str, str], dict[str, None]] = {}
    for pod in items:
        if not isinstance(pod, Mapping):
            continue
        meta, spec, status = (pod.get(k) or {} for k in ("metadata", "spec", "status"))
        node = spec.get("nodeName")
        if not node or status.get("phase", "Running") not in RUNNING:
            continue
        hosts.setdefault((str(meta.get("namespace") or ""), _owner(meta)), {})[str(node)] = None
    for (namespace, name), nodes in hosts.items():
        yield ScheduledJob(name, tuple(nodes), namespace)


def _owner(meta: Mapping[str, Any]) -> str:
    labels = meta.get("labels") or {}
    for label in OWNER_LABELS:
        if labels.get(label):
            return str(labels[label])
    owners = meta.get("ownerReferences") or []
    return str(owners[0].get("name")) if owners else str(meta.get("name") or "pod")


def _plain(told: Mapping[str, Any] | list[Any], of: str) -> Iterator[ScheduledJob]:
    entries = [{"name": n, "hosts": h} for n, h in told.items()] if isinstance(told, Mapping) else told
    for i, entry in enumerate(entries):
        hosts = entry.get("hosts") if isinstance(entry, Mapping) else None
        if isinstance(hosts, str):
            hosts = [hosts]
        if not isinstance(hosts, list) or not hosts or not all(isinstance(h, str | int) for h in hosts):
            name = entry.get("name", i) if isinstance(entry, Mapping) else i
            raise InputError(f"{of}: job {name} has no hosts; a line such as train: [node-1, node-2], or squeue --json")
        names = tuple(dict.fromkeys(n for h in hosts for n in expand_hostlist(str(h))))
        yield ScheduledJob(str(entry.get("name", f"job {i + 1}")), names, str(entry.get("user", "")))


def expand_hostlist(text: str) -> tuple[str, ...]:
    """``node[001-003,7],login`` as Slurm means it: node001, node002, node003, node7, login. Raises :class:`InputError`, :class:`LimitError`."""
    found: list[str] = []
    for part in _split(text):
        choices = [_choices(piece, text) if i % 2 else [piece] for i, piece in enumerate(_pieces(part, text))]
        total = 1
        for c in choices:
            total *= len(c)
        if len(found) + total > MOST_HOSTS:
            raise LimitError(f"{text[:60]}: more than {MOST_HOSTS:,} hosts")
        found += ["".join(names) for names in product(*choices)]
    return tuple(dict.fromkeys(found))


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _pieces(part: str, text: str) -> list[str]:
    """Plain text and what is in brackets, in turn."""
    pieces = re.split(r"[\[\]]", part)
    if len(pieces) % 2 == 0 or re.sub(r"[^][]", "", part) != "[]" * (len(pieces) // 2):
        raise InputError(f"hosts {text[:60]!r}: a bracket is not closed; Slurm writes node[001-004,007]")
    return pieces


def _choices(inside: str, text: str) -> list[str]:
    out: list[str] = []
    for item in inside.split(","):
        item = item.strip()
        hit = _RANGE.fullmatch(item)
        if hit and int(hit[1]) <= int(hit[2]):
            if int(hit[2]) - int(hit[1]) >= MOST_HOSTS:
                raise LimitError(f"{text[:60]}: more than {MOST_HOSTS:,} hosts")
            out += [str(n).zfill(len(hit[1])) for n in range(int(hit[1]), int(hit[2]) + 1)]
        elif item.isdecimal():
            out.append(item)
        else:
            raise InputError(f"hosts {text[:60]!r}: {item!r} is no number and no range such as 001-004")
    return out
