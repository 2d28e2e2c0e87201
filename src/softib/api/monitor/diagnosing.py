"""Findings from counters over time, combined with jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.findings import Findings
from softib.api.progress import Steps, unwatched
from softib.api.table import Table
from softib.plural import counted
from softib.result import html_table

if TYPE_CHECKING:
    from softib.analysis.jobs.files import ScheduledJob
    from softib.analysis.jobs.links import JobLinks
    from softib.api.running.running import RunningFabric
    from softib.diags.cable_rules.job_traffic import JobPorts, ProcessesOf
    from softib.diags.finding import Finding
    from softib.diags.observations import Observations
    from softib.fabric.formats.base import ReadResult

__all__ = ["Jobs", "diagnose", "jobs_on"]

Source: TypeAlias = "Fabric | RunningFabric | str | os.PathLike[str]"
JobsGiven: TypeAlias = "Jobs | str | os.PathLike[str] | Mapping[str, Any]"


class Jobs(Suggests):
    """Jobs on a fabric: the links that each of them may use, the links that they share, and their expected slowdown
    (:func:`jobs_on`)."""

    def __init__(self, links: JobLinks):
        self._links = links
        self._slow: dict[tuple[int, int], float] = {}

    def __len__(self) -> int:
        return len(self._links.jobs)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the jobs, with their IDs."""
        return tuple(j.job.name for j in self._links.jobs)

    def links(self, job: str) -> list[str]:
        """Return the ports that may send traffic of the job, for example ``leaf-3[40]``. Raises
        :class:`UnknownName`."""
        return self._links.links_of(self._row(job))

    def sharing(self, job: str) -> dict[str, int]:
        """Return other job → number of links that both jobs may use (each direction of a cable counts), the largest
        number first. Raises :class:`UnknownName`."""
        return self._links.sharing(self._row(job))

    def crossing(self, place: str) -> list[str]:
        """Return the jobs whose traffic may cross the cable at ``leaf-3[40]``, in either
        direction. Raises :class:`UnknownName`."""
        from softib.fabric.faults.targets import port_at

        f = self._links.fabric
        port = port_at(f, place)
        return self._links.crossing(int(f.node_guid[f.port_node[port]]), int(f.port_num[port]))

    def on_port(self, node_guid: int, portnum: int) -> list[str]:
        """Like :meth:`crossing`, but by ``node_guid`` and ``portnum``; empty for a port that is not in the fabric."""
        return self._links.crossing(node_guid, portnum)

    def ports(self) -> list[JobPorts]:
        """Return the ports of the hosts' adapters of each job."""
        from softib.diags.cable_rules.job_traffic import JobPorts

        return [JobPorts(j.job.name, self._links.ports_of(i)) for i, j in enumerate(self._links.jobs)]

    def with_slow_ports(self, findings: Sequence[Finding]) -> Jobs:
        """Return the jobs on a copy of the fabric in which the slow ports that findings name drain at their measured
        rate."""
        other = Jobs(self._links)
        for f in findings:
            if f.code == "slow-receiver" and f.where[0].portnum is not None:
                other._slow[f.where[0].guid, f.where[0].portnum] = float(f.evidence["drained_gbps"])
        return other

    def slowdown(self) -> dict[str, float]:
        """Return by job the expected slowdown of its messages: their mean time beside the other jobs, divided by that
        alone (static layer, random permutations)."""
        return dict(zip(self.names, self._links.slowdown(self._slow), strict=True))

    def to_json(self) -> list[dict[str, Any]]:
        """Return one object per job: name, user, hosts, missing hosts, number of cables, sharing
        jobs, expected slowdown."""
        return self._links.to_json(self._slow)

    def table(self) -> Table:
        """Return the rows of :meth:`to_json` as a table, one row per job."""
        stated = self.to_json()
        return Table(
            {
                "job": [j["job"] for j in stated],
                "user": [j["user"] for j in stated],
                "hosts": [len(j["hosts"]) for j in stated],
                "missing_hosts": [", ".join(j["missing_hosts"]) for j in stated],
                "cables": [j["cables"] for j in stated],
                "shared_with": [", ".join(j["shared_with"]) for j in stated],
                "expected_slowdown": [j["expected_slowdown"] for j in stated],
            }
        )

    def lines(self) -> list[str]:
        """Return one text line per job."""
        out = []
        for j in self.to_json():
            others = ", ".join(f"{counted(n, 'link')} with {name}" for name, n in list(j["shared_with"].items())[:3])
            missing = (
                f"; {counted(len(j['missing_hosts']), 'host')} not on this fabric ({j['missing_hosts'][0]} …)"
                if j["missing_hosts"]
                else ""
            )
            shares = f", shares {others}" if others else ", shares none"
            out.append(
                f"job {j['job']}: {counted(len(j['hosts']), 'host')}, {counted(j['cables'], 'cable')}{shares}; "
                f"expected {j['expected_slowdown']:.2f}x slower than alone{missing}"
            )
        return out

    def _row(self, job: str) -> int:
        from softib.errors import UnknownName

        if job not in self.names:
            raise UnknownName("job", job, self.names)
        return self.names.index(job)

    def __repr__(self) -> str:
        return f"<Jobs: {', '.join(self.names[:5])}{' …' if len(self) > 5 else ''}>"

    def _repr_html_(self) -> str:
        stated = self.to_json()
        return html_table(
            ("job", "hosts", "cables", "slowdown"),
            ((j["job"], len(j["hosts"]), j["cables"], j["expected_slowdown"]) for j in stated),
        )


def jobs_on(source: Source, jobs: str | os.PathLike[str] | Mapping[str, Any], *, steps: Steps = unwatched) -> Jobs:
    """Return the links that jobs use. ``jobs`` is a file or a mapping: Slurm's ``squeue --json`` or
    ``scontrol show job --json``, a Kubernetes list of pods, or YAML (``train: [node-1, node-2]``).

    The forwarding tables are those of a running fabric, otherwise those of softib's subnet manager.
    Raises :class:`UnreadableFile` and :class:`InputError` for a file without jobs.

    >>> import softib
    >>> fabric = softib.generate("fat-tree", radix=4, levels=2)
    >>> jobs = softib.jobs_on(fabric, {"a": ["host-0001", "host-0003"], "b": ["host-[0005-0006]"]})
    >>> jobs.crossing("host-0003[1]"), jobs.sharing("a")
    (['a'], {})
    """
    from softib.analysis.jobs.files import read_jobs
    from softib.analysis.jobs.links import place_jobs
    from softib.analysis.routed import routed

    stated: list[ScheduledJob] = read_jobs(jobs)
    tables = routed(result_of(as_fabric(source)), None, None, steps)
    return Jobs(place_jobs(tables.fabric, tables.graph, tables.lft, stated))


def _processes_on(source: Source | None) -> ProcessesOf:
    """Return a function that finds the processes of a job: on the nodes of a running fabric, otherwise on this
    machine."""
    from softib.live.instances import running
    from softib.live.proc import JobProcesses

    name = getattr(source, "name", source)
    return JobProcesses(next((i.folder for i in running() if i.name == name), None)).of


STANDING = frozenset(
    {
        "absent-host",
        "absent-switch",
        "isolated-part",
        "link-not-active",
        "missing-adapter",
        "missing-cable",
        "missing-uplinks",
        "unlinked-hca-port",
    }
)
"""Findings of :func:`softib.check` on links and devices that were already dead when counters were read.
"""


def _with_standing(findings: list[Finding], result: ReadResult) -> list[Finding]:
    """Return ``findings``, and findings of the structure about dead links and devices, which have no counters."""
    from softib.diags.check import check

    named = {(p.guid, p.portnum) for f in findings for p in f.where}
    dead = [f for f in check(result.fabric) if f.code in STANDING]
    dead = [f for f in dead if not any((p.guid, p.portnum) in named for p in f.where)]
    return sorted([*findings, *dead], key=lambda f: -f.severity)


def diagnose(
    observed: Any,
    source: Source | None = None,
    *,
    jobs: JobsGiven | None = None,
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    severity: str = "info",
    ignore: Sequence[str] = (),
    steps: Steps = unwatched,
) -> Findings:
    """Find bad cables from the increase of all ports' counters (``observed``: :class:`Observations
    <softib.diags.observations.Observations>`, or an object that has them in ``observations``). ``source`` is the
    observed fabric: dead links and devices are found from its structure, as in :func:`check`. If it has forwarding
    tables (a running fabric, ``umad:DEVICE``), waiting ports are followed through them. The subnet manager seen by
    :func:`observe` is also checked, so that a hanging manager is distinguished from a network fault. ``jobs`` (see
    :func:`jobs_on`; needs ``source``) adds to each finding the jobs that cross the cable, and finds jobs whose hosts'
    HCAs carry no data. ``thresholds`` is a YAML file or a mapping that overrides
    ``softib/diags/cable_rules/thresholds.yaml``. The rules have no other input; in particular, they do not know
    injected error rates.

    Raises :class:`UnknownName`, :class:`InputError` and :class:`UnreadableFile` for invalid
    thresholds, codes and jobs.
    """
    from softib.analysis.model import Report
    from softib.analysis.observed_fabric import fabric_of_ports, with_bisection
    from softib.analysis.pipeline import counts_of
    from softib.api.findings import checked_codes, severity_named
    from softib.diags.cable_rules.case import Case
    from softib.diags.cable_rules.job_traffic import job_traffic
    from softib.diags.cable_rules.judge import judge
    from softib.diags.cable_rules.thresholds import load_thresholds
    from softib.diags.managers.manager_health import manager_findings
    from softib.diags.observations import tables_of
    from softib.errors import InputError
    from softib.fabric.formats.base import ReadResult

    if not hasattr(observed, "ports") and not hasattr(observed, "observations"):
        raise InputError(f"diagnose: observed must be a result of softib.observe, not a {type(observed).__name__}")
    severity_named(severity)
    checked_codes(ignore)
    seen: Observations = getattr(observed, "observations", observed)
    if source is None and jobs is not None and not isinstance(jobs, Jobs):
        raise InputError("jobs need the fabric of their hosts; add the source that was observed")
    if source is None:
        result = ReadResult(fabric_of_ports(seen.ports), [], "observed")
        name = "observed"
    else:
        fabric = as_fabric(source)
        result, name = result_of(fabric), fabric.source
    on = (
        jobs
        if isinstance(jobs, Jobs)
        else jobs_on(source, jobs, steps=steps)
        if source is not None and jobs is not None
        else None
    )
    tables = tables_of(result.fabric, seen.ports) if "lfts" in result.fabric.source.records else None
    with steps("rules"):
        findings = with_bisection(result.fabric, judge(seen, tables, thresholds, None if on is None else on.on_port))
        findings += manager_findings(getattr(observed, "managers", ()))
        if source is not None:
            findings = _with_standing(findings, result)
        if on is not None:
            findings += job_traffic(Case(seen, load_thresholds(thresholds)), on.ports(), _processes_on(source))
    report = Report(name, result.format, counts_of(result), findings, list(result.problems), fabric=result.fabric)
    return Findings(report).without(*ignore).at_least(severity)
