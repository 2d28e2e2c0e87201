"""Measure a fabric with perftest between all hosts, and compare with the values expected from their
paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from softib.api.acceptance.collectives import CollectiveRun, collective_findings, run_collectives
from softib.api.acceptance.result import Acceptance, AcceptanceSource
from softib.api.fabric import Fabric, result_of
from softib.api.findings import Findings
from softib.api.progress import Steps, unwatched
from softib.errors import InputError, UnknownFormat, UnreadableFile
from softib.plural import counted

if TYPE_CHECKING:
    from softib.analysis.acceptance.plan import FabricEnds
    from softib.api.running.running import RunningFabric
    from softib.diags.acceptance.measurements import Measurements, PairTest
    from softib.live.acceptance.launchers import Launcher

__all__ = ["accept", "fabric_of", "launcher_of", "report_of", "where_to_measure"]

Source: TypeAlias = "Fabric | RunningFabric | str | os.PathLike[str] | Sequence[str]"
Progress: TypeAlias = Callable[[int, int, float], None]
LOCAL = "local"


class AcceptOptions(TypedDict, total=False):
    """Options of a run."""

    rounds: int | None
    """Rounds for each class of pairs: same leaf, across a spine, across a core (default 4; None:
    until all pairs are measured).
    """
    tests: Sequence[str] | None
    """Names of :data:`softib.diags.acceptance.measurements.TESTS` (None: all)."""
    quick: bool
    """Run only the tests under load, with two rounds."""
    program: str
    """``write``, ``send`` or ``read``: the perftest programs."""
    size: int
    """Message size of the bandwidth tests in bytes (1 MiB)."""
    seconds: float
    """Duration of each program (1)."""
    at_once: int | None
    """Maximum number of pairs that run at the same time, in tests in which pairs must not share links."""
    base_port: int
    """First TCP port over which perftest exchanges its parameters (18515)."""
    seed: int
    """Seed of the random partners."""
    use_cuda: int | None
    """The GPU whose memory perftest uses (its option ``--use_cuda``)."""
    collectives: Sequence[str]
    """Command lines of benchmarks from OSU or nccl-tests, for example ``mpirun -np 8 osu_allreduce``."""
    ranks_per_host: int
    """Number of ranks that the collectives have on each host (1)."""
    machine: str | os.PathLike[str]
    """A machine file from :func:`softib.calibrate`, for the predictions of collectives."""


@dataclass(frozen=True)
class Options:
    """:class:`AcceptOptions` with their defaults. Raises :class:`InputError` for impossible
    values."""

    rounds: int | None = 4
    tests: Sequence[str] | None = None
    quick: bool = False
    program: str = "write"
    size: int = 1 << 20
    seconds: float = 1.0
    at_once: int | None = None
    base_port: int = 18515
    seed: int = 0
    use_cuda: int | None = None
    collectives: Sequence[str] = ()
    ranks_per_host: int = 1
    machine: str | os.PathLike[str] = ""

    def __post_init__(self) -> None:
        from softib.api.acceptance.collectives import check_commands
        from softib.live.acceptance.perftest import PROGRAMS

        check_commands(self.collectives, self.ranks_per_host)
        if self.program not in PROGRAMS:
            raise InputError(
                f"program {self.program!r} is not in perftest; use {', '.join(PROGRAMS)} (for ib_write_bw, "
                f"ib_write_lat "
                f"…)"
            )
        if self.size < 1 or not self.seconds > 0:
            raise InputError(f"size={self.size}, seconds={self.seconds:g}: use values above 0")

    @property
    def per_class(self) -> int | None:
        """Number of rounds for each class of pairs; None: no limit."""
        return min(2, self.rounds or 2) if self.quick else self.rounds

    @property
    def extra(self) -> tuple[str, ...]:
        """Further arguments of perftest."""
        return () if self.use_cuda is None else (f"--use_cuda={self.use_cuda}",)

    @property
    def chosen(self) -> tuple[PairTest, ...]:
        """The tests. Raises :class:`UnknownName`."""
        from softib.diags.acceptance.measurements import QUICK, TESTS, tests_named

        return tests_named(self.tests or (QUICK if self.quick else TESTS))


def accept(
    source: Source,
    *,
    launcher: str | None = None,
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    devices: Sequence[str] = (),
    ssh_config: str | os.PathLike[str] | None = None,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = lambda done, of, left_s: None,
    steps: Steps = unwatched,
    **options: Unpack[AcceptOptions],
) -> Acceptance:
    """Measure bandwidth and latency between all hosts with perftest, and report slow parts. In each round, every port
    has a partner.

    ``source``: a running fabric (``launcher`` ``local``: programs run on its nodes); or any other
    SOURCE, or a file or list of hosts, for ``ssh`` or ``srun``. Paths are known only if the source
    has cables; otherwise only hosts and adapters can be reported. ``hosts``: measure only these.
    ``devices``: the adapters to use on each host, one per rail, if there is no fabric. ``ssh_config``: ssh's
    configuration file (keys, ports, jump hosts; default: the user's). ``journal``: a file to which
    each finished batch is written; ``resume`` continues that file. ``progress`` is called with the
    number of batches done, the number of all batches, and the seconds left.

    ``options``: ``rounds`` for each class of pairs (same leaf, across a spine, across a core;
    default 4; None: until all pairs have met); ``tests`` by name (``bandwidth``,
    ``bandwidth-both``, ``bandwidth-both-loaded``, ``latency``, ``latency-loaded``,
    ``latency-with-bandwidth``; default all); ``quick``: only the tests under load, with two rounds;
    ``program``: ``write``, ``send`` or ``read``; ``size``: bytes of a message; ``seconds``: duration of each program;
    ``at_once``: maximum number of pairs that run at the same time in tests in which pairs must not share links;
    ``base_port``: first TCP port; ``seed``; ``use_cuda``: the GPU whose memory perftest uses; ``collectives``: command
    lines of benchmarks from OSU or nccl-tests, which run after the pairs and are compared with predictions, with
    ``ranks_per_host`` (1) and the ``machine`` file of :func:`softib.calibrate`. Hosts that fail are reported as
    findings; the run continues. Raises :class:`InputError` or a related error if it cannot start.
    """
    from softib.analysis.acceptance.plan import host_ports, measurements_of, plan_batches
    from softib.live.acceptance.campaign import run_campaign
    from softib.live.acceptance.journal import Journal
    from softib.live.acceptance.launchers import launcher_named

    given = Options(**options)
    with steps("paths"):
        fabric = fabric_of(source)
        if launcher is None and fabric is not None and fabric.format != "running":
            _refuse_default_ssh(fabric)
        place = where_to_measure(source if fabric is None else fabric, hosts, devices, steps)
        ssh = "" if ssh_config is None else os.fspath(ssh_config)
        started_by = launcher_of(place.name, place.running, launcher, ssh, launcher_named)
        plan = plan_batches(
            place.ends,
            place.expectation,
            given.chosen,
            per_class=given.per_class,
            size=given.size,
            seconds=given.seconds,
            at_once=given.at_once or _at_once(place, started_by.name),
            seed=given.seed,
        )
    ports = host_ports(place.ends)
    about = {
        "launcher": started_by.name,
        "program": given.program,
        "tests": [t.name for t in given.chosen],
        "rounds": len(plan.rounds),
        "sizes": dict(plan.sizes),
        "seconds": given.seconds,
    }
    stated = {
        "source": place.name,
        **about,
        "seed": given.seed,
        "ports": [[p.node, p.host, p.device, p.portnum] for p in ports],
    }
    book = Journal(journal, stated, resume)
    run_campaign(plan.batches, ports, started_by, book, given.program, given.base_port, progress, given.extra)
    with steps("collectives"):
        runs = run_collectives(place, given.collectives, given.ranks_per_host, given.machine)
    return judged(place, measurements_of(place.ends, book.entries), about, steps, runs)


def judged(
    place: AcceptanceSource,
    measured: Measurements,
    about: Mapping[str, Any],
    steps: Steps,
    runs: Sequence[CollectiveRun] = (),
) -> Acceptance:
    """Return the findings of existing measurements."""
    from softib.analysis.acceptance.findings import judge

    with steps("tomography"):
        judgement = judge(measured, place.expectation, dict(about["sizes"]), paced=place.paced)
    findings = [*judgement.findings, *collective_findings(runs)]
    return Acceptance(place, measured, judgement.expected, Findings(report_of(place, findings)), about, runs)


def report_of(place: AcceptanceSource, findings: Sequence[Any]) -> Any:
    """Return a report that contains ``findings`` and, if it is known, the fabric."""
    from softib.analysis.model import Report
    from softib.analysis.pipeline import counts_of
    from softib.fabric.builder import FabricBuilder
    from softib.fabric.formats.base import ReadResult
    from softib.iba.constants import NodeType

    result = place.result
    if result is None:
        built = FabricBuilder(place.name)
        built.nodes(len(place.ends), NodeType.CA, 1, desc=list(place.ends.node))
        result = ReadResult(built.build(), [], "hosts")
    return Report(
        place.name, result.format, counts_of(result), list(findings), list(result.problems), fabric=result.fabric
    )


def where_to_measure(
    source: Source,
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    devices: Sequence[str] = (),
    steps: Steps = unwatched,
) -> AcceptanceSource:
    """Return the ports to measure and, if a fabric is known, the paths between them."""
    from softib.analysis.acceptance.plan import ends_of_hosts
    from softib.analysis.jobs.files import read_hosts

    chosen = None if hosts is None else read_hosts(hosts)
    fabric = fabric_of(source)
    if fabric is not None:
        return _on_fabric(fabric, chosen, steps)
    assert not isinstance(source, Fabric) and not hasattr(source, "snapshot")
    listed = read_hosts(source)
    kept = [h for h in listed if chosen is None or h in chosen]
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else f"{counted(len(listed), 'host')}"
    return AcceptanceSource(name, ends_of_hosts(kept, devices))


def fabric_of(source: Source) -> Fabric | None:
    """Return the fabric of ``source``; None for hosts."""
    from softib.api.fabric import as_fabric

    if isinstance(source, Fabric) or hasattr(source, "snapshot"):
        return as_fabric(source)
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        return as_fabric(os.fspath(source))
    except UnknownFormat:
        return None
    except UnreadableFile:
        if not os.path.exists(source) and any(c in os.fspath(source) for c in ",["):
            return None
        raise


def _on_fabric(fabric: Fabric, hosts: Sequence[str] | None, steps: Steps) -> AcceptanceSource:
    from softib.analysis.acceptance.expected_pairs import Expectation
    from softib.analysis.acceptance.plan import ends_of_fabric
    from softib.analysis.routed import routed
    from softib.api.running.running import RunningFabric

    result = result_of(fabric)
    tables = routed(result, None, None, steps)
    ends: FabricEnds = ends_of_fabric(tables.fabric, tables.graph, hosts)
    running = fabric.source if fabric.format == "running" else ""
    expectation = Expectation(tables.fabric, ends.row, None)
    paced = not running or RunningFabric(running).status().pace
    return AcceptanceSource(fabric.source, ends.ends, result, expectation, running, paced)


def launcher_of(
    source: str, running: str, name: str | None, ssh_config: str, launcher_named: Callable[[str, str, str], Launcher]
) -> Launcher:
    """Return the launcher ``name``; by default that of a running fabric, otherwise ssh."""
    chosen = name or (LOCAL if running else "ssh")
    if chosen == LOCAL and not running:
        raise InputError(f"{source} is not a running fabric; use --launcher ssh or --launcher srun to reach its hosts")
    return launcher_named(chosen, running, ssh_config)


def _refuse_default_ssh(fabric: Fabric) -> None:
    """Raise :class:`InputError` instead of using ssh by default for the hosts of a file, because they may exist only in
    a plan."""
    from softib.iba.node_description import address_of

    whole = result_of(fabric).fabric
    hosts = len({address_of(whole.node_name(n)).system for n in whole.is_host.nonzero()[0].tolist()})
    raise InputError(
        f"{fabric.source} describes {counted(hosts, 'host')}; use --launcher ssh or --launcher srun to run perftest on "
        f"{'them' if hosts != 1 else 'it'}, or --cover to prove all cables in virtual time"
    )


def _at_once(place: AcceptanceSource, launcher: str) -> int | None:
    """Return the maximum number of pairs that run at the same time. If all run on this machine, its processors limit
    it; if it is unknown which pairs share links, it is one."""
    if launcher == LOCAL:
        return max(1, (os.cpu_count() or 2) // 2)
    return None if place.expectation is not None else 1
