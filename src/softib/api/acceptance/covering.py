"""Burn-in with proof of coverage: every direction of every cable under load, in as few rounds as possible."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from softib.api.acceptance.accepting import Source, fabric_of, launcher_of, report_of
from softib.api.acceptance.collectives import check_commands, collective_findings, run_collectives
from softib.api.acceptance.coverage import Coverage, CoverComparison, InputHash
from softib.api.acceptance.result import AcceptanceSource
from softib.api.fabric import result_of
from softib.api.findings import Findings
from softib.api.progress import Steps, unwatched
from softib.errors import InputError, UnreadableFile

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.acceptance.cover.measured import MeasuredRound
    from softib.analysis.acceptance.cover.routes import CoverRoutes
    from softib.analysis.acceptance.cover.schedule import CoverRound
    from softib.analysis.acceptance.plan import FabricEnds
    from softib.analysis.routed import Routed

__all__ = ["cover"]

Read: TypeAlias = "tuple[np.ndarray, np.ndarray]"

VIRTUAL = "virtual"
LEAST_PARTS = 3
"""Minimum number of parts of a round from which a standard error of its rates is computed."""
SENDS = 0.01
"""A port counts as sending data if it uses more than this share of its link's rate. (Acknowledgements use less.)"""
ROUNDS = 40
LIDS = "no port of a host has a LID"


@dataclass(frozen=True)
class _Place:
    """The fabric with its tables, the measuring ports and their routes."""

    source: AcceptanceSource
    found: Routed
    ends: FabricEnds
    routes: CoverRoutes


class CoverOptions(TypedDict, total=False):
    """Options of a run."""

    rounds: int
    """Maximum number of rounds (40)."""
    seconds: float
    """Duration of each round in seconds, during which the counters are watched (1)."""
    program: str
    """``write``, ``send`` or ``read``: the perftest programs."""
    size: int
    """Bytes of a message (1 MiB)."""
    adaptive: bool | None
    """Plan for adaptive routing. None: only if the switches' tables have groups of adaptive routing. True with a
    file: softib's manager turns it on."""
    ssh_config: str | os.PathLike[str]
    base_port: int
    """First TCP port for perftest's exchange (18515)."""
    seed: int
    """Seed of the random partners."""
    use_cuda: int | None
    """The GPU whose memory perftest uses (``--use_cuda``)."""
    collectives: Sequence[str]
    """Command lines of benchmarks, as in :func:`softib.accept`; not available in virtual time."""
    ranks_per_host: int
    machine: str | os.PathLike[str]


def cover(
    source: Source,
    *,
    launcher: str | None = None,
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    lfts: str | os.PathLike[str] | None = None,
    compare: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
    steps: Steps = unwatched,
    **options: Unpack[CoverOptions],
) -> Coverage:
    """Load every direction of every cable to 80 % of its rate, in as few rounds as the routes
    allow, and prove it with the counters of the ports.

    ``source``: a running fabric (``launcher`` ``local``) or ``umad:DEVICE`` (``ssh``, ``srun``),
    whose counters are read over MADs; or any other SOURCE, in virtual time (``launcher``
    ``virtual``, the default for these). ``hosts``: only these send and receive. ``lfts``: tables of
    a dump. ``compare``: the JSON document of an earlier run. ``progress`` is called with rounds
    done and the number of all rounds.

    ``options``: maximum ``rounds`` (40); ``seconds`` for which the counters are watched in each
    round (1); ``adaptive``: plan for adaptive routing (None: only if the switches' tables have groups of adaptive
    routing; True with a file: softib's manager turns it on); ``size``: bytes of a message of perftest's ``program``
    (``write``, ``send``, ``read``); ``ssh_config``, ``base_port``, ``seed``, ``use_cuda``, ``collectives``,
    ``ranks_per_host`` and ``machine`` as in :func:`softib.accept`.

    Raises :class:`InputError` or a related error if it cannot start.
    """
    given = _Given(**options)
    with steps("routes"):
        place = _place(source, hosts, lfts, given.adaptive, steps)
    name = _launcher_name(place.source, launcher)
    if given.collectives and name == VIRTUAL:
        raise InputError("collectives need real hosts; in virtual time use softib simulate SOURCE mpi-allreduce:1MB")
    from softib.analysis.acceptance.cover.coverage import proof_of
    from softib.analysis.acceptance.cover.findings import findings_of
    from softib.analysis.acceptance.cover.run import run_cover
    from softib.analysis.acceptance.cover.schedule import SHARE, cover_schedule
    from softib.analysis.acceptance.cover.virtual import SPAN_PS

    earlier = None if compare is None else _earlier(compare)
    with steps("schedule"):
        schedule = cover_schedule(place.routes, given.rounds, given.seed)
    with _measurer(place, name, given) as measure, steps("rounds"):
        run = run_cover(place.routes, schedule, measure, progress, given.seed)
    measured, slow = run.rounds, run.slow
    with steps("collectives"):
        runs = run_collectives(place.source, given.collectives, given.ranks_per_host, given.machine)
    ends = place.ends.ends
    proof = proof_of(place.routes, ends, schedule, measured, slow, given.rounds)
    failures = [f.named(ends) for one in measured for f in _failures(one)]
    paced = place.source.paced or name == VIRTUAL
    found = [*findings_of(place.routes, place.ends, proof, slow, failures, paced), *collective_findings(runs)]
    result = Coverage(
        source=place.source.name,
        launcher=name,  # type: ignore[arg-type]
        routing="tables" if place.routes.groups is None else "adaptive",
        share=SHARE,
        hosts=len(set(ends.host)),
        ports=len(ends),
        directions=len(place.routes.directions),
        planned=proof.planned,
        proven=proof.proven,
        tiers=proof.tiers,
        rounds=proof.rounds,
        slow=proof.slow,
        unproven=proof.unproven,
        unexplained=proof.unexplained,
        failures=failures,
        judged=Findings(report_of(place.source, found)),
        seconds=SPAN_PS / 1e12 if name == VIRTUAL else given.seconds,
        versions=_versions(),
        inputs=_inputs(place, source, hosts, lfts, compare),
        made=_now(),
        collectives=runs,
    )
    return result if earlier is None else _compared(result, earlier)


@dataclass(frozen=True)
class _Given:
    """Options of a run. Raises :class:`InputError` for impossible values."""

    rounds: int = ROUNDS
    seconds: float = 1.0
    program: str = "write"
    size: int = 1 << 20
    adaptive: bool | None = None
    ssh_config: str | os.PathLike[str] = ""
    base_port: int = 18515
    seed: int = 0
    use_cuda: int | None = None
    collectives: Sequence[str] = ()
    ranks_per_host: int = 1
    machine: str | os.PathLike[str] = ""

    def __post_init__(self) -> None:
        from softib.live.acceptance.perftest import PROGRAMS

        check_commands(self.collectives, self.ranks_per_host)

        if self.program not in PROGRAMS:
            raise InputError(f"program {self.program!r} is not in perftest; use {', '.join(PROGRAMS)}")
        if self.rounds < 1 or self.size < 1 or not self.seconds > 0:
            raise InputError(f"rounds={self.rounds}, size={self.size}, seconds={self.seconds:g}: use values above 0")


def _place(
    source: Source,
    hosts: str | os.PathLike[str] | Sequence[str] | None,
    lfts: str | os.PathLike[str] | None,
    adaptive: bool | None,
    steps: Steps,
) -> _Place:
    from softib.analysis.acceptance.cover.routes import cover_routes
    from softib.analysis.acceptance.plan import ends_of_fabric
    from softib.analysis.jobs.files import read_hosts
    from softib.analysis.routed import RUNNING, routed

    fabric = fabric_of(source)
    if fabric is None:
        raise InputError(
            "--cover needs cables, which a list of hosts does not have; use a running fabric, umad:DEVICE or a fabric "
            "file"
        )
    result = result_of(fabric)
    if adaptive and result.format != RUNNING and not lfts:
        result.extra["sm"] = {**result.extra.get("sm", {}), "adaptive_routing": "free"}
    tables = routed(result, None, None if lfts is None else os.fspath(lfts), steps)
    ends = ends_of_fabric(tables.fabric, tables.graph, None if hosts is None else read_hosts(hosts))
    if len(ends.ends) < 2:
        raise InputError(f"{fabric.source}: {LIDS if not len(ends.ends) else 'one port of a host'}; a flow needs two")
    routes = cover_routes(tables.fabric, tables.graph, tables.lft, ends, adaptive is not False)
    if adaptive and routes.groups is None:
        raise InputError(f"{fabric.source}: no switch has tables of adaptive routing; leave --adaptive out")
    running = fabric.source if fabric.format == "running" else ""
    paced = True
    if running:
        from softib.api.running.running import RunningFabric

        paced = RunningFabric(running).status().pace
    return _Place(AcceptanceSource(fabric.source, ends.ends, result, None, running, paced), tables, ends, routes)


def _launcher_name(place: AcceptanceSource, name: str | None) -> str:
    live = bool(place.running) or place.name.startswith("umad:")
    if name is None:
        if place.name.startswith("umad:"):
            raise InputError(f"{place.name}: use --launcher ssh or --launcher srun to run perftest on its hosts")
        return "local" if place.running else VIRTUAL
    if name != VIRTUAL and not live:
        raise InputError(f"{place.name}: the counters of a file cannot be read; use umad:DEVICE, or --launcher virtual")
    return name


class _measurer:
    """Return a context manager for a function that measures a round, in virtual time or on hosts."""

    def __init__(self, place: _Place, name: str, given: _Given):
        self.place, self.name, self.given = place, name, given
        self.close: Callable[[], None] = lambda: None

    def __enter__(self) -> Callable[[CoverRound], MeasuredRound]:
        place = self.place
        if self.name == VIRTUAL:
            from softib.analysis.acceptance.cover.virtual import measure_in_virtual_time

            return lambda one: measure_in_virtual_time(place.routes, one, place.ends.row)
        from softib.analysis.acceptance.plan import host_ports
        from softib.api.acceptance.port_data import PortData
        from softib.live.acceptance.campaign import exchange_ports
        from softib.live.acceptance.launchers import launcher_named
        from softib.monitor.opening import open_source

        started_by = launcher_of(
            place.source.name, place.source.running, self.name, os.fspath(self.given.ssh_config), launcher_named
        )
        opened = open_source(place.source.running or place.source.name)
        self.close = opened.close
        data = PortData(opened, place.found.fabric)
        tcp = exchange_ports(self.given.base_port, started_by.name == "local")
        rate = float(place.routes.gbps[place.ends.port].min())

        def measure(one: CoverRound) -> MeasuredRound:
            nonlocal rate
            found = _on_hosts(place, one, started_by, host_ports(place.ends.ends), tcp, data.read, self.given, rate)
            rate = min(rate, _sent(place, found) or rate)
            return found

        return measure

    def __exit__(self, *why: object) -> None:
        self.close()


def _on_hosts(
    place: _Place,
    one: CoverRound,
    launcher: Any,
    ports: Sequence[Any],
    tcp: Iterator[int],
    read: Callable[[], Read],
    given: _Given,
    sender_gbps: float,
) -> MeasuredRound:
    import numpy as np

    from softib.analysis.acceptance.cover.measured import MeasuredRound
    from softib.live.acceptance.cover_rounds import cover_round

    pairs = [(ports[s], ports[t]) for s, t in zip(one.source.tolist(), one.target.tolist(), strict=True)]
    extra = () if given.use_cuda is None else (f"--use_cuda={given.use_cuda}",)
    senders = place.ends.port[one.source]

    def rate(before: Read, after: Read) -> np.ndarray:
        (begin, first), (end, last) = before, after
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(end > begin, (last - first) * 32.0 / (end - begin), np.nan)

    def all_send(before: Read, after: Read) -> bool:
        return bool((rate(before, after)[senders] > SENDS * place.routes.gbps[senders]).all())

    taken = cover_round(
        launcher,
        pairs,
        program=given.program,
        size=given.size,
        seconds=given.seconds,
        tcp=tcp,
        extra=extra,
        read=read,
        all_send=all_send,
        gbps=sender_gbps,
    )
    gbps, error = _rates(np.array([r[0] for r in taken.readings]), np.array([r[1] for r in taken.readings]))
    failures = tuple(
        (int(one.source[i]), int(one.target[i]), reason) for i, reason in enumerate(taken.failures) if reason
    )
    return MeasuredRound(one, gbps[place.routes.port], failures, error[place.routes.port])


def _rates(when: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (Gb/s, standard error in Gb/s) for each port: the slope of its counter (``data``, in units of 4 bytes)
    over the times of its readings (``when``, ns), both float64[readings, ports]. A single late reading hardly
    changes a slope, and a program that pauses increases the standard error."""
    import numpy as np

    x, y = when - when.mean(axis=0), (data - data.mean(axis=0)) * 32.0
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (x * x).sum(axis=0)
        gbps = np.where(spread > 0, (x * y).sum(axis=0) / spread, np.nan)
        if len(when) <= LEAST_PARTS:
            return gbps, np.zeros(len(gbps))
        return gbps, np.sqrt(((y - gbps * x) ** 2).sum(axis=0) / (len(when) - 2) / spread)


def _sent(place: _Place, one: MeasuredRound) -> float:
    """Return the median of the senders' rates in Gb/s; 0 if no counter was read."""
    import numpy as np

    rates = one.gbps[place.routes.channel[place.ends.port[one.plan.source]]]
    return float(np.median(rates[np.isfinite(rates)])) if np.isfinite(rates).any() else 0.0


def _failures(one: MeasuredRound) -> Iterator[Any]:
    from softib.diags.acceptance.measurements import Failure

    for s, t, reason in one.failures:
        yield Failure(one.plan.number, "cover", s, t, -1, reason)


def _versions() -> dict[str, str]:
    import numpy

    import softib

    return {
        "softib": softib.__version__,
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "kernel": platform.release(),
    }


def _now() -> str:
    from datetime import UTC, datetime

    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _inputs(place: _Place, source: Any, hosts: Any, lfts: Any, compare: Any) -> list[InputHash]:
    """Return hashes of the files, cables and tables that the run used."""
    import numpy as np

    from softib.input_files import content

    out = []
    for path in (source, hosts, lfts, compare):
        if isinstance(path, str | os.PathLike) and os.path.isfile(path):
            out.append(InputHash(os.fspath(path), hashlib.sha256(content(path, kind="input").data).hexdigest()))
    f = place.found.fabric
    cables = np.stack([f.node_guid[f.port_node], f.port_num.astype(np.uint64), (f.port_peer + 1).astype(np.uint64)])
    out.append(InputHash("cables", hashlib.sha256(cables.tobytes()).hexdigest()))
    out.append(InputHash("forwarding tables", hashlib.sha256(place.found.lft.tobytes()).hexdigest()))
    return out


@dataclass(frozen=True)
class _EarlierCoverage:
    """An earlier result. ``unproven`` and ``slow``: directions of links, as text."""

    path: str
    proven: int
    directions: int
    unproven: set[str]
    slow: set[str]


def _earlier(path: str | os.PathLike[str]) -> _EarlierCoverage:
    from softib.input_files import FILE_LIMIT, json_document

    hint = "use the output of softib accept --cover --json"
    document = json_document(path, "result of softib accept --cover", hint, FILE_LIMIT)
    try:
        if not document["schema"].startswith("softib/accept-cover/"):
            raise KeyError
        return _EarlierCoverage(
            os.fspath(path),
            proven=int(document["proven"]),
            directions=int(document["directions"]),
            unproven={f"{d['place']} → {d['peer']}" for d in document["unproven"]},
            slow={f"{d['place']} → {d['peer']}" for d in document["slow"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnreadableFile(f"{os.fspath(path)}: not a result of softib accept --cover; {hint}") from None


def _compared(now: Coverage, before: _EarlierCoverage) -> Coverage:
    from dataclasses import replace

    unproven = {f"{d.place} → {d.peer}" for d in now.unproven}
    slow = {f"{d.place} → {d.peer}" for d in now.slow}
    return replace(
        now,
        compared=CoverComparison(
            before.path,
            before.proven,
            before.directions,
            sorted(unproven - before.unproven),
            sorted(before.unproven - unproven),
            sorted(slow - before.slow),
            sorted(before.slow - slow),
        ),
    )
