"""Traffic in virtual time: a workload on a fabric, in one of the simulator's layers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softib.api.arguments import check_choice
from softib.api.fabric import Fabric, as_fabric
from softib.api.simulation.result import Simulation
from softib.api.simulation.runs import Record, Runs
from softib.api.simulation.what_if import SENSITIVITY, changes_of, check_network, packet_options, text_of, variants_of
from softib.errors import InputError, UnknownName

if TYPE_CHECKING:
    from softib.workloads.workload import Workload
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__all__ = ["Record", "check_fabrics", "check_layer", "scaling", "simulate"]


def scaling(
    source: Fabric | str | os.PathLike[str],
    workload: Any,
    gpus: Sequence[int],
    *,
    weak: bool = True,
    layer: str = "fluid",
) -> list[dict[str, Any]]:
    """Return the results of a training step (``training-step:1,tensor=8,…``) on the first GPUs of
    the fabric, one row for each number of GPUs: ``gpus``, ``batch``, ``step_us``, ``efficiency``
    (share of the GPUs' achieved rate), ``relative`` (throughput of a GPU relative to the first
    row), ``tokens_per_s``, ``gpu_hours_per_step``, ``gpu_hours_per_billion_tokens``.

    ``weak``: the workload's batch is that of the first row and grows with the number of GPUs;
    otherwise all rows have the same batch. Raises :class:`InputError` for another workload, for
    numbers that are not multiples of a node's GPUs, and for more GPUs than exist.

    >>> import softib
    >>> fabric = softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False)
    >>> rows = softib.scaling(fabric, "training-step:1,tensor=8,batch=32", [8, 32])
    >>> [row["batch"] for row in rows]
    [32, 128]
    """
    from softib.api.operations import bring_up
    from softib.workloads.hosts import hosts_of
    from softib.workloads.nccl_jobs import TrainingStep
    from softib.workloads.training.job import figures_of, nodes_of_job
    from softib.workloads.workload import Workload as Made
    from softib.workloads.workload import read

    work = read(workload)
    job = work.jobs[0]
    if len(work.jobs) != 1 or not isinstance(job, TrainingStep):
        raise InputError(f"{work.name}: a scaling curve needs one job of pattern training-step")
    if not gpus:
        raise InputError("a scaling curve needs numbers of GPUs, for example 64, 128, 256")
    fabric = as_fabric(source)
    if not len(hosts_of(fabric.arrays)):
        fabric = bring_up(fabric).fabric
    placed = nodes_of_job(job, hosts_of(fabric.arrays))
    each, adapters = placed.gpus, placed.adapters
    rows: list[dict[str, Any]] = []
    for count in gpus:
        nodes, left = divmod(count, each)
        if left or not 1 <= nodes <= len(adapters):
            raise InputError(
                f"{count:,} GPUs do not fit: the fabric has {len(adapters):,} nodes with {each} GPUs each; use a "
                f"multiple of {each} up to the total"
            )
        batch = job.batch * count // gpus[0] if weak else job.batch
        chosen = [int(r) for r in adapters[:nodes].reshape(-1)]
        one = job.model_copy(update={"hosts": chosen, "batch": batch})
        run = simulate(fabric, Made(f"{work.name} on {count}", (one,)), layer=layer)
        if not run.good:
            raise InputError(f"{count:,} GPUs: the training step did not complete; use softib.simulate to see why")
        hosts = hosts_of(fabric.arrays)
        figures = figures_of(one, hosts.name, hosts.chosen(list(chosen)), hosts.gbps, run.simulated_us)
        rows.append({"gpus": count, "batch": batch, **{k: v for k, v in figures.items() if k != "gpus"}})
        rows[-1]["relative"] = rows[-1]["tokens_per_s"] / count / (rows[0]["tokens_per_s"] / gpus[0])
    return rows


def simulate(
    source: Fabric | str | os.PathLike[str],
    workload: Any,
    *,
    layer: str = "fluid",
    engine: str | None = None,
    lfts: str | os.PathLike[str] | None = None,
    seed: int = 0,
    network: str = "infiniband",
    what_if: str | Sequence[str] | None = None,
    record: Record | None = None,
    faults: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] = (),
) -> Simulation:
    """Run ``workload`` on the fabric in virtual time: ``permutation:2MB``, a YAML file of jobs, a
    trace, a dict or list of jobs, your own traffic, or anything else that
    :meth:`softib.Workload.of` accepts.

    The subnet manager brings up a fabric without tables, with ``engine``; ``lfts`` is a dump of
    tables to use instead. ``layer``: ``packet``, ``fluid`` or ``static``. ``what_if``
    (``"engine=updn"``, ``"ar=on,cc=on"``, several as a list) runs it again with that change, and if
    there are several also with each change alone. ``ar`` and ``cc`` are adaptive routing and
    congestion control of the packet layer; ``vl=jobs`` gives each job a separate SL; ``latency=2``,
    ``bandwidth=0.5`` and ``congestion=2`` are factors; ``generation=XDR`` keeps the graph, with
    links of that generation. ``"sensitivity"`` runs it with each of these three factors halved and
    doubled. ``network`` (also available as a change in a what-if): ``infiniband``, or the same
    cables, switches and hosts as Ethernet with ``roce`` (RoCEv2, priority flow control, DCQCN) or
    ``tcp``, with options of the packet layer as in ``"roce,pfc=off,gbps=100"``. ``faults`` (packet
    layer) are added to those of the workload: lines like ``"20us link-down leaf-1[3]"``, mappings,
    or the section of a workload file, ``{"faults": […], "management": {"sm": "off"}}``. ``record``:
    what to record in addition, and options of the run. ``seed`` chooses everything random: the pairs of a
    random pattern, bit errors, random arbitration, clock errors of Ethernet. A running fabric is only read, never
    changed. Raises :class:`UnknownName` and :class:`InputError` for invalid input: an unknown
    pattern, too many hosts, no path.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> softib.simulate(tree, "shift:1MB")
    <Simulation of 'shift:1MB' on 'fat-tree' (fluid): 8 messages in 22.253 us>
    """
    from softib.analysis.simulation.run import run_layer
    from softib.workloads.workload import read

    record, path = record or Record(), None if lfts is None else os.fspath(lfts)
    check_network({} if network == "infiniband" else {"network": network}, layer)
    wanted = [(text, changes_of(text, layer)) for text in _changes(what_if)]
    packet_options(record.queue_pairs, layer, network)

    def runs() -> Runs:
        check_choice(engine, path)
        run_layer(layer)
        work = _with_faults(read(workload), faults).on_machine(os.fspath(record.machine))
        check_layer(work, layer)
        common = (layer, engine, path, seed, network, record)
        if not work.fabrics:
            return Runs(as_fabric(source), work, *common)
        check_fabrics(work, layer)
        elsewhere = _elsewhere(work, layer, engine, seed, record.queue_pairs)
        here = work.of_fabric(None)
        return Runs(as_fabric(source), here, *common, work.on_one_fabric(), elsewhere)

    simulation = Simulation.of(runs)
    for text, changes in () if simulation.interrupted else wanted:
        for number, variant in enumerate(variants_of(changes)):
            simulation.add_variant(text if number == 0 else text_of(variant), variant)
    return simulation


def _changes(what_if: str | Sequence[str] | None) -> list[str]:
    """Return the changes of each run; ``sensitivity`` stands for several runs."""
    texts = [what_if] if isinstance(what_if, str) else list(what_if or ())
    return [one for text in texts for one in (SENSITIVITY if text == "sensitivity" else (text,))]


def _elsewhere(
    work: Workload, layer: str, engine: str | None, seed: int, queue_pairs: Mapping[str, int]
) -> dict[str, Runs]:
    """Return the jobs that ``work`` places on other fabrics, by fabric name."""
    record = Record(queue_pairs=queue_pairs)
    return {
        name: Runs(
            as_fabric(other.source),
            work.of_fabric(name),
            layer,
            other.engine or engine,
            None,
            seed,
            other.network,
            record,
        )
        for name, other in work.fabrics.items()
    }


def check_layer(work: Workload, layer: str) -> None:
    """Raise :class:`UnknownName` for an unknown layer, :class:`InputError` for a layer that cannot
    run ``work``."""
    from softib.analysis.simulation.run import run_layer

    run_layer(layer)
    if work.phased is not None and layer != "fluid":
        raise InputError(f"the {layer} layer does not support barriers; use layer fluid")


def check_fabrics(work: Workload, layer: str) -> None:
    """Raise an error if a job names a fabric that the workload file does not define, or if ``layer`` does not support a
    fabric's network."""
    work.of_fabric(None)
    for name, other in work.fabrics.items():
        work.of_fabric(name)
        if other.network != "infiniband":
            check_network({"network": other.network}, layer)


def _with_faults(work: Workload, given: Sequence[str | Mapping[str, Any]] | Mapping[str, Any]) -> Workload:
    """Return ``work`` and the faults given to ``simulate``."""
    if isinstance(given, str):
        return work.with_faults([given])
    if not isinstance(given, Mapping):
        return work.with_faults(given) if given else work
    for key in given:
        if key not in ("faults", "management"):
            raise UnknownName("key of faults", str(key), ("faults", "management"))
    return work.with_faults(given.get("faults", ()), given.get("management"))
