"""``softib simulate``: a workload on a fabric, in virtual time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import Load, json_option, seed_option, source_options, table_options
from softib.cli.shared.output import (
    SHOW_S,
    Steps,
    given_options,
    print_json,
    print_notice,
    print_problems,
    show_line,
)
from softib.plural import counted, plural

if TYPE_CHECKING:
    import softib

LAYERS = ("static", "loggops", "fluid", "packet")
SMS = ("internal", "off")


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.argument("workload", shell_complete=completing.files)
@click.option(
    "--layer",
    type=click.Choice(LAYERS),
    default="fluid",
    show_default=True,
    help=(
        "Layer of the simulator. packet: credits, queues, arbitration; fluid: fair rates of flows; static: loads of "
        "links; loggops: traces, without congestion."
    ),
)
@table_options
@seed_option
@click.option(
    "--what-if",
    "what_if",
    metavar="CHANGES",
    multiple=True,
    help=(
        "Run WORKLOAD again with a change: engine=updn, ar=on, cc=on, vl=jobs, network=roce, generation=XDR, or "
        "several separated by commas. Repeatable."
    ),
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Run WORKLOAD again with latency, bandwidth and congestion halved and doubled.",
)
@click.option("--alone", is_flag=True, help="Also run each job alone, and show its slowdown.")
@click.option(
    "--sample",
    metavar="TIME",
    help="Interval between samples of loads and queues, for example 1us (default: about a hundredth of the run).",
)
@click.option(
    "--trace",
    metavar="MESSAGE",
    help="Packet layer: show the timeline of a message. Give its number, or SOURCE->DESTINATION#2 for the second.",
)
@click.option(
    "--pcap", metavar="F", type=OutputFile(), help="Packet layer: write the frames of --port as pcapng, for Wireshark."
)
@click.option(
    "--port",
    "ports",
    metavar="NODE:PORT",
    multiple=True,
    help="A port whose frames --pcap writes, for example leaf-1:3. Repeatable.",
)
@click.option(
    "--counters",
    metavar="NODE:PORT",
    multiple=True,
    help="Print the increase of a port's counters during the run, in the format of perfquery. Repeatable.",
)
@click.option(
    "--network",
    metavar="N",
    default="infiniband",
    show_default=True,
    help=(
        "Use the same cables as Ethernet: roce or tcp, with options, for example roce,pfc=off,gbps=100 (--layer "
        "packet)."
    ),
)
@click.option(
    "--hosts",
    metavar="COSTS",
    help="Host costs of messages, for example pcie=gen4x16,program_ns=860 (default: by adapter generation).",
)
@click.option(
    "--machine",
    metavar="F",
    type=InputFile("softib calibrate LOG --machine"),
    help="A machine file: nodes of GPUs and costs of hosts, as softib calibrate writes it.",
)
@click.option(
    "--against",
    metavar="LOG",
    type=InputFile(),
    help="Compare a log of nccl-tests or an OSU benchmark with the predictions for its sizes.",
)
@click.option(
    "--fault",
    "faults",
    metavar="FAULT",
    multiple=True,
    help=(
        "Packet layer: inject a fault at a time: '20us link-down leaf-1[3]', '1ms ber leaf-1[3] ber=1e-9'. Repeatable."
    ),
)
@click.option(
    "--sm",
    type=click.Choice(SMS),
    default=None,
    help="The subnet manager that reacts to faults: softib's manager in virtual time (default), or none.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 31),
    help="Packet layer: ACK timeout of queue pairs, 4.096 us * 2^N (default 14: 67 ms), as in ibv_modify_qp(3).",
)
@click.option(
    "--retry-cnt", type=click.IntRange(0, 7), help="Packet layer: retries after timeouts and NAKs (default 7)."
)
@click.option(
    "--min-rnr-timer",
    type=click.IntRange(0, 31),
    help="Packet layer: code of the RNR NAK timer (default 12: 0.64 ms).",
)
@click.option(
    "--rnr-retry",
    type=click.IntRange(0, 7),
    help="Packet layer: consecutive RNR NAKs that a sender accepts (default 7: no limit).",
)
@click.option(
    "--sweep",
    metavar="GRID",
    type=InputFile(),
    help=(
        "Run every combination of a grid.yaml (parameters and seeds); --parquet F writes a row for each, and a "
        "killed sweep can be continued."
    ),
)
@click.option(
    "--workers", type=click.IntRange(min=0), default=0, help="Processes of a sweep (default: one per processor)."
)
@click.option(
    "--dask", metavar="ADDRESS", help="Run a sweep on the Dask cluster of this scheduler, for example tcp://head:8786."
)
@click.option(
    "--parquet",
    metavar="F",
    type=OutputFile(),
    help="Write every message (with --sweep: every run) as a row of a Parquet file.",
)
@click.option(
    "--packets",
    metavar="F",
    type=OutputFile(),
    help="Packet layer: write every event of every packet at every port as a row of a Parquet file.",
)
@click.option(
    "--html",
    "html",
    metavar="F",
    type=OutputFile(),
    help="Write a self-contained page: loads over time, latencies, causes.",
)
@json_option
@source_options
def command(source: str, workload: str, load: Load, **given: Any) -> int:
    """Run WORKLOAD on SOURCE in virtual time.

    WORKLOAD is a pattern with its size and options, for example permutation:2MB or
    incast:64KB,senders=16,start=10us, or a YAML file of jobs. Patterns: permutation, shift,
    all-to-all, random-pairs, bisection, incast, parking-lot, hot-spot, latency, bandwidth,
    message-rate, matrix, multicast, aggregation, storage, checkpoint, trace (a GOAL schedule or
    Chakra traces, or their file alone). A fabric without forwarding tables is brought up by the
    subnet manager first. Exit 1 if a message did not complete, 2 for invalid input. Ctrl-C in the
    packet layer prints the partial result, and exits as interrupted programs do (130).
    """
    import softib

    if given["sweep"] or given["dask"] or given["workers"]:
        return swept(source, workload, load, given)
    if bool(given["pcap"]) != bool(given["ports"]):
        raise click.UsageError(
            "--pcap F (the file) and --port NODE:PORT (the ports whose frames are captured) must be used together"
        )
    fabric = load(source, Steps())
    if given["layer"] == "loggops":
        return _replay(fabric, workload, given)
    sampled = given["sample"] or (given["html"] is not None and given["layer"] != "static")
    record = softib.Record(
        samples=sampled,
        ports=given["ports"],
        trace=given["trace"],
        counters=given["counters"],
        progress=Progress(given["layer"]),
        queue_pairs={key: given[key] for key in OF_QUEUE_PAIRS if given[key] is not None},
        hosts=_costs(given["hosts"]),
        machine=given["machine"] or "",
        against=given["against"] or "",
        packets=given["packets"] is not None,
        interruptible=True,
    )
    result = softib.simulate(
        fabric,
        workload,
        layer=given["layer"],
        engine=given["engine"],
        lfts=given["lfts"],
        seed=given["seed"],
        network=given["network"],
        what_if=[*given["what_if"], *(["sensitivity"] if given["sensitivity"] else [])],
        record=record,
        faults={"faults": given["faults"], "management": {"sm": given["sm"]} if given["sm"] else {}},
    )
    if result.interrupted:
        show_line("")
    elif given["alone"]:
        result.run_jobs_alone()
    _write(result, given)
    if given["as_json"]:
        counters = {place: result.counters(place) for place in given["counters"]}
        print_json({**result.to_json(), **({"counters": counters} if counters else {})})
    else:
        print_problems(fabric.problems)
        result.print()
        for place in given["counters"]:
            click.echo(f"\n# Port counters: {place}\n{result.perfquery(place)}")
    if result.interrupted:
        raise KeyboardInterrupt  # exit like an interrupted program after the output
    return 0 if result.good else 1


def _costs(text: str | None) -> dict[str, str]:
    """Parse a text like ``pcie=gen4x16,program_ns=860`` into keys and values."""
    pieces = [piece.partition("=") for piece in (text or "").split(",") if piece.strip()]
    for key, equals, _ in pieces:
        if not equals:
            raise click.UsageError(f"--hosts {text}: {key.strip()!r} has no value; use for example program_ns=860")
    return {key.strip(): value.strip() for key, _, value in pieces}


OF_QUEUE_PAIRS = ("timeout", "retry_cnt", "min_rnr_timer", "rnr_retry")
OF_REPLAY = ("layer", "engine", "lfts", "as_json")


def _replay(fabric: softib.Fabric, workload: str, given: dict[str, Any]) -> int:
    """Replay a trace with the LogGOPS layer, and return the exit code."""
    import softib

    context = click.get_current_context()
    for key in given:
        source = context.get_parameter_source(key)
        if key not in OF_REPLAY and source is not None and source.name == "COMMANDLINE":
            raise click.UsageError(
                f"--layer loggops supports only --engine, --lfts and --json; leave --{key.replace('_', '-')} out"
            )
    result = softib.replay(fabric, workload, engine=given["engine"], lfts=given["lfts"])
    if given["as_json"]:
        print_json(result.to_json())
    else:
        result.print()
    return 0


def _write(result: softib.Simulation, given: dict[str, Any]) -> None:
    if given["pcap"]:
        print_notice(f"{result.to_pcap(given['pcap']):,} frames written to {given['pcap']}")
    if given["packets"]:
        n = result.packets_to_parquet(given["packets"])
        print_notice(f"{counted(n, 'event')} of packets written to {given['packets']}")
    for what, path, write in (
        ("messages", given["parquet"], result.to_parquet),
        ("page", given["html"], result.to_html),
    ):
        if path:
            write(path)
            print_notice(f"{what} written to {path}")


MANY_FLOWS_S = 60
"""If more seconds than this remain, the fluid layer recomputes many rates per event, and the progress line suggests the
packet layer."""


PACE_S = 10.0
"""The pace is measured over the last 10 to 20 seconds, because a run may become slower after its start."""


class Progress:
    """Progress line: work done, and the remaining time at the present pace."""

    def __init__(self, layer: str) -> None:
        self.shown = time.monotonic()
        self.marks = [(self.shown, 0)] * 2
        self.fluid = layer == "fluid"

    def __call__(self, done: int, of: int, now_ps: int) -> None:
        now = time.monotonic()
        if now - self.shown < SHOW_S and done < of:
            return
        self.shown = now
        if now - self.marks[1][0] >= PACE_S:
            self.marks = [self.marks[1], (now, done)]
        since, before = self.marks[0]
        left = (now - since) * (of - done) / max(done - before, 1)
        rest = f", {left:.0f} s left" if 100 * done > of else ""
        if rest and self.fluid and left > MANY_FLOWS_S:
            rest += "; many flows share links: --layer packet may be faster"
        show_line(f"{done / max(of, 1):.0%} of {of:,}, virtual time {now_ps / 1e6:,.1f} us{rest}" if done < of else "")


OF_A_SWEEP = {"sweep", "workers", "dask", "parquet", "json", "layer", "engine", "ibnl", "node_name_map"}


def swept(source: str, workload: str, load: Load, given: dict[str, Any]) -> int:
    """Run the sweep requested by the options of ``softib simulate``; return the exit code."""
    import softib

    if not given["sweep"]:
        raise click.UsageError("--workers and --dask need --sweep grid.yaml")
    for name in given_options():
        if name not in OF_A_SWEEP:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for a single run, not for a sweep; set parameters in {given['sweep']}"
            )
    fabric = load(source, Steps())
    result = softib.sweep(
        fabric,
        workload,
        given["sweep"],
        layer=given["layer"],
        engine=given["engine"],
        out=given["parquet"],
        workers=given["workers"],
        dask=given["dask"],
        progress=Rows(),
    )
    if given["parquet"]:
        print_notice(f"{counted(len(result.rows()), 'run')} written to {given['parquet']}")
    if given["as_json"]:
        print_json(result.to_json())
    else:
        print_problems(fabric.problems)
        result.print()
    return 0 if result.good else 1


class Rows:
    """Progress line: finished runs, and the remaining time at the present pace. Runs that an earlier call finished do
    not count towards the pace.
    """

    def __init__(self) -> None:
        self.began = self.shown = time.monotonic()
        self.before: int | None = None

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if self.before is None:
            self.before, self.began = done, now
            if done:
                print_notice(f"{done:,} of {counted(of, 'run')} {plural(of, 'is', 'are')} finished earlier")
        if done < of and now - self.shown < SHOW_S:
            return
        self.shown, new = now, done - self.before
        left = f", {(now - self.began) * (of - done) / new:.0f} s left" if new else ""
        show_line(f"{done:,} of {counted(of, 'run')}{left}" if done < of else "")
