"""The ports that limited a run, each with the flows through it, the cause, and remedies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.analysis.simulation.host_limits import covered_ps, pcie_limit, rate_limit
from softib.analysis.simulation.result import RunResult
from softib.analysis.simulation.victim_flows import Flow, Victims, flows_through, slowdowns, victims_of
from softib.plural import counted, plural
from softib.sim.credits import too_long

__all__ = ["BusyPort", "EngineLoad", "busy_ports", "engine_loads"]

SHOWN_PORTS = 5
SHOWN_PAIRS = 3
UNEVEN = 1.5
"""If the load of a link is at least this many times the mean load of the switch's other links to switches, the cause is
the forwarding tables."""
FULL = 0.95
SHARE_OF_CREDITS = 0.5
"""A link waited for credits if, averaged over the run, it carried at least this share of the rate that its credits
allow."""
AS_BUSY = 0.98
"""If the load of a host's link is at least this share of a port's load, the host's link limits the flow as much as the
port.
"""
HARDLY = 0.02
"""No link counts as busy below this load."""
BUSY = 0.5
"""Minimum load at which a port may delay messages. If no port reaches it, the run did not wait for links.
"""
SEEN = {
    "pause_frames_received": "pause frames stopped it",
    "tail_drops": "frames dropped at its full queue",
    "ecn_marked": "frames marked",
}
"""Counters of an Ethernet port → text with which a cause mentions them."""
CROWD = 1.5
"""Minimum mean number of messages in flight at which their senders delay each other."""


@dataclass(frozen=True)
class BusyPort:
    """An egress port.

    * ``load``: share of the run in which its link was busy.
    * ``pairs``: the pairs of source and destination with the most bytes on the link, and their shares.
    * ``n_pairs``: number of all pairs.
    * ``hop``: its position on the path of the first pair, which has ``hops`` hops.
    * ``flows``: the largest of its ``n_flows`` flows.
    * ``victims``: messages that waited behind these flows.
    * ``changes``: remedies as changes of a what-if (``cc``, ``ar``, ``engine``, ``vl``).
    """

    port: int
    place: str
    peer: str
    gbps: float
    load: float
    octets: float
    n_pairs: int
    pairs: tuple[tuple[str, str, float], ...]
    hop: int
    hops: int
    vls: tuple[int, ...]
    cause: str
    help: str
    changes: tuple[str, ...]
    flows: tuple[Flow, ...]
    n_flows: int
    victims: Victims | None


@dataclass(frozen=True)
class EngineLoad:
    """``relative``: load of the busiest link between switches under ``engine``'s tables, divided by that in the run."""

    engine: str
    relative: float


def busy_ports(run: RunResult) -> list[BusyPort]:
    """Return the :data:`SHOWN_PORTS` ports with the largest load, largest first; among equal loads, ports inside
    the fabric come first."""
    f = run.fabric
    inside = (f.switch_of_node[f.port_node] >= 0) & (f.switch_of_node[f.port_node[np.maximum(f.port_peer, 0)]] >= 0)
    order = np.lexsort((np.arange(len(run.load)), ~inside, -np.round(run.load, 6)))
    ports = [int(p) for p in order[:SHOWN_PORTS] if run.load[p] > 0]
    if run.outcome.network != "infiniband":
        return [_hashed(run, p) for p in ports]
    slow = slowdowns(run) if any(run.load[p] >= BUSY for p in ports) else np.zeros(len(run.messages))
    return [_busy(run, p, slow) for p in ports]


def _busy(run: RunResult, port: int, slow: np.ndarray) -> BusyPort:
    f, m, laid = run.fabric, run.messages, run.plane.lay(run.messages)
    on = laid.port >> 4 == port
    entries = np.flatnonzero(on[laid.channel])
    rows = np.searchsorted(laid.first, entries, side="right") - 1
    pair = m.src[rows].astype(np.int64) << 32 | m.dst[rows]
    unique, which = np.unique(pair, return_inverse=True)
    size = np.bincount(which, m.size[rows].astype(float))
    top = np.argsort(-size, kind="stable")[:SHOWN_PAIRS]
    a, b = unique >> 32, unique & 0xFFFFFFFF
    pairs = tuple((str(run.names[a[k]]), str(run.names[b[k]]), float(size[k] / size.sum())) for k in top)
    first = rows[int(np.argmax(which == top[0]))]
    hop = int(entries[int(np.argmax(which == top[0]))] - laid.first[first]) + 1
    at_once = float(run.took_ps[rows].clip(0).sum()) / max(run.outcome.end_ps, 1)
    cause, remedy, changes = _cause(run, port, rows, len(np.unique(a)), len(np.unique(b)), at_once)
    flows, n_flows = flows_through(run, port)
    victims = victims_of(run, port, slow) if run.load[port] >= BUSY else None
    return BusyPort(
        port=port,
        place=f.port_name(port),
        peer=f.port_name(int(f.port_peer[port])),
        gbps=float(run.plane.gbps[port]),
        load=float(run.load[port]),
        octets=float(run.octets[port]),
        n_pairs=len(unique),
        pairs=pairs,
        hop=hop,
        hops=int(laid.first[first + 1] - laid.first[first]),
        vls=tuple(np.unique(laid.port[on] & 15).tolist()),
        cause=cause,
        help=remedy,
        changes=changes,
        flows=tuple(flows),
        n_flows=n_flows,
        victims=victims,
    )


def _hashed(run: RunResult, port: int) -> BusyPort:
    """Return an Ethernet port with its cause. The run does not record which flows the hash sent through it."""
    f = run.fabric
    switch, peer = f.switch_of_node[f.port_node[port]], f.switch_of_node[f.port_node[f.port_peer[port]]]
    figures = {name: int(column[port]) for name, column in run.outcome.port_figures.items()}
    hardly = run.load.max() < BUSY
    if hardly:
        cause, remedy = _hardly_busy_ethernet(run)
    elif run.load[port] < FULL <= run.load.max():
        cause, remedy = "it is not full", "nothing here: another port is the limit"
    elif switch < 0:
        cause, remedy = "its own link limits what the host sends", "nothing in the fabric: a faster link"
    elif peer < 0:
        cause, remedy = "the receiver's own link", "fewer senders at once"
    else:
        mean = _mean_of_others(run, port)
        uneven = run.load[port] > UNEVEN * mean
        leads = "packets whose paths lead here" if run.congestion_control.path else "flows that the hash leads here"
        cause = f"{leads}, while this switch's other links to switches are {mean:.0%} busy on average"
        remedy = (
            ("more flows" if run.outcome.network == "tcp" else "more flows, or packets on all paths (cc=spray)")
            if uneven
            else "more or faster links there (oversubscription)"
        )
    seen = [f"{figures[key]:,} {counter}" for key, counter in SEEN.items() if figures[key]]
    if seen and not hardly:
        cause += f" ({', '.join(seen)})"
    return BusyPort(
        port=port,
        place=f.port_name(port),
        peer=f.port_name(int(f.port_peer[port])),
        gbps=float(run.gbps[port]),
        load=float(run.load[port]),
        octets=float(run.octets[port]),
        n_pairs=0,
        pairs=(),
        hop=0,
        hops=0,
        vls=(),
        cause=cause,
        help=remedy,
        changes=(),
        flows=(),
        n_flows=0,
        victims=None,
    )


def _links_to_switches(run: RunResult, port: int) -> np.ndarray:
    """Return the other ports of the switch of ``port`` that have links to switches."""
    f = run.fabric
    others = f.node_base[f.port_node[port]] + 1 + np.arange(f.node_nports[f.port_node[port]])
    others = others[f.linked[others] & (others != port)]
    return others[f.switch_of_node[f.port_node[f.port_peer[others]]] >= 0]


def _mean_of_others(run: RunResult, port: int) -> float:
    """Return the mean load of the switch's other links to switches; 0 if there are none."""
    others = _links_to_switches(run, port)
    return float(run.load[others].mean()) if len(others) else 0.0


def _host_links(run: RunResult, messages: np.ndarray) -> float:
    """Return the load of the busier of the two hosts' links for the message of ``messages`` for which it is
    smallest."""
    f, m = run.fabric, run.messages
    sender = run.plane.ends[m.src[messages]]
    receiver = f.port_peer[run.plane.ends[m.dst[messages]]]
    return float(np.maximum(run.load[sender], run.load[receiver]).min())


def _exchanged(run: RunResult, port: int, rows: np.ndarray) -> bool:
    """Return whether a receiver's link is busy with an exchange, for example a collective. In an exchange, the host
    sends for as long as it receives, and the senders of the messages ``rows`` are at least half as busy on average
    (weighted by bytes)."""
    f, m = run.fabric, run.messages
    busy = np.average(run.load[run.plane.ends[m.src[rows]]], weights=m.size[rows].astype(float))
    return bool(min(run.load[f.port_peer[port]] * 0.5, busy) >= 0.5 * AS_BUSY * run.load[port])


def _short_of_credits(run: RunResult) -> np.ndarray:
    """Return whether each port waited for credits (bool[ports])."""
    return np.asarray(run.load * run.plane.gbps >= SHARE_OF_CREDITS * run.plane.credits.gbps) & (run.load > 0)


def _waits_for_credits(run: RunResult, rows: np.ndarray) -> bool:
    """Return whether each of the messages ``rows`` crosses a link that waited for credits."""
    laid = run.plane.lay(run.messages)
    short = _short_of_credits(run)
    return bool(short.any() and np.logical_or.reduceat(short[laid.port >> 4][laid.channel], laid.first[rows]).all())


def _cause(
    run: RunResult, port: int, rows: np.ndarray, sources: int, targets: int, at_once: float
) -> tuple[str, str, tuple[str, ...]]:
    """Return the reason why the port is busy, a remedy, and the corresponding changes of a what-if.
    ``rows``: the messages that cross it; ``at_once``: mean number of messages in flight."""
    whose = f"traffic of {counted(sources, 'host')} to {targets}"
    if _short_of_credits(run)[port]:
        return (
            f"{whose}: {too_long(run.plane, port)}",
            "a shorter cable, traffic on several VLs, or fewer operational VLs (their receive buffers grow)",
            (),
        )
    if _waits_for_credits(run, rows):
        return (
            f"{whose}: credits of another link on their paths do not last",
            "nothing here: that link is the limit",
            (),
        )
    if limit := pcie_limit(run, rows, whose):
        return limit
    if run.load.max() < BUSY:
        return _hardly_busy(run, port, rows, whose)
    if limit := rate_limit(run, port, rows, whose):
        return limit
    f = run.fabric
    switch, peer = f.switch_of_node[f.port_node[port]], f.switch_of_node[f.port_node[f.port_peer[port]]]
    if switch < 0:
        return "its own link limits what the host sends", "nothing in the fabric: a second adapter or a faster link", ()
    if peer < 0:
        if sources == 1:
            return "the receiver's own link: one host sends to it", "nothing in the fabric: a faster link", ()
        if at_once < CROWD:
            return (
                f"the receiver's own link: {sources} hosts send to it, hardly ever two at once",
                "nothing in the fabric: a faster link",
                (),
            )
        if _exchanged(run, port, rows):
            return (
                f"the receiver's own link: {sources} hosts send to it, and it sends as much itself",
                "nothing in the fabric: a second adapter or a faster link",
                (),
            )
        many = len(run.jobs) > 1
        apart = ", or an SL and VL of its own for each job" if many else ""
        return (
            f"the receiver's own link: {sources} hosts send to one",
            (f"fewer senders at once, or congestion control so that others do not wait behind them{apart}"),
            ("vl", "cc") if many else ("cc",),
        )
    if targets == 1 and sources > 1:
        return (
            f"{whose}: it leads to one receiver, whose own link is the limit",
            "what helps at the receiver",
            ("vl", "cc") if len(run.jobs) > 1 else ("cc",),
        )
    others = _links_to_switches(run, port)
    mean = _mean_of_others(run, port)
    if run.load[port] < FULL and run.load.max() >= FULL:
        return f"{whose}: it is not full", "nothing here: another port is the limit", ()
    if _host_links(run, rows) >= AS_BUSY * run.load[port]:
        return f"{whose}: it is not busier than their own links", "nothing here: the hosts' own links are the limit", ()
    if len(others) and run.load[port] > UNEVEN * mean:
        return (
            f"{whose}: the tables lead it here, while the {len(others)} other links of this switch to "
            f"switches are {mean:.0%} busy",
            "adaptive routing, or another engine, where it spreads these destinations",
            ("engine", "ar"),
        )
    if run.load[port] < FULL:
        return (
            f"{whose}: it is not full",
            "nothing here: hosts, or messages that wait for each other, are the limit",
            (),
        )
    return (
        f"{whose}: all links of this switch to switches are about as busy ({mean:.0%})"
        if len(others)
        else f"{whose}: it is this switch's only link to a switch",
        "more or faster links there (oversubscription); no routing helps",
        (),
    )


def _computing(run: RunResult) -> float:
    """Return the share of the run in which any computation ran."""
    m, o = run.messages, run.outcome
    rows = np.flatnonzero(m.computes & (o.arrived_ps >= 0) & (m.delay_ps > 0))
    if not len(rows) or o.end_ps <= 0:
        return 0.0
    end = o.arrived_ps[rows]
    return covered_ps(end - m.delay_ps[rows], end) / o.end_ps


def _waits(run: RunResult) -> tuple[str, str]:
    """Return cause and remedy of a run that waits for computations or latencies, and not for the fabric."""
    computing = _computing(run)
    if computing >= BUSY:
        return (
            f"computations and exchanges inside hosts take {computing:.0%} of the run",
            "faster processors or GPUs, or computing and communication at the same time",
        )
    advice = "larger messages, or more of them under way"
    if any(getattr(job, "window", 0) == 1 for job in run.workload.jobs):
        advice += " (window=1: a host begins a message when its last one is through; window=0 begins all at once)"
    return "latencies are the limit", advice


def _hardly_busy(run: RunResult, port: int, rows: np.ndarray, whose: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the values of :func:`_cause` for a run in which no link is busy for half of the time. The causes are then
    rates of hosts, latencies, messages that wait for earlier ones, or ACK timeouts after losses."""
    repeated = 0 if run.failures is None else int((run.failures.resent > 0).sum())
    discards = run.outcome.counters["port_xmit_discards"]
    if run.outcome.dissolved:
        return (
            f"{whose}: a deadlock of {counted(len(run.outcome.dissolved), 'port')}, which discards dissolved",
            "an engine without credit loops, with the SLs that it states",
            ("engine",),
        )
    if not repeated and discards.any():
        lost = f"{counted(int(discards.sum()), 'packet')} {plural(int(discards.sum()), 'was', 'were')} discarded"
        return (
            f"{whose}: no link is busy; {lost} at {counted(int((discards > 0).sum()), 'port')}, and messages waited "
            "for ACK timeouts",
            "fewer senders at once, or longer lifetimes of packets (HOQLife)",
            ("cc",),
        )
    if not repeated:
        most = float(run.load.max())
        busy = "no link is busy" if most < HARDLY else f"no link is busy for more than {most:.0%} of the run"
        if _computing(run) < BUSY and (limit := rate_limit(run, port, rows, whose)):
            return limit
        cause, remedy = _waits(run)
        return f"{whose}: {busy}; {cause}", remedy, ()
    return (
        f"{whose}: no link is busy; {repeated:,} messages waited for ACK timeouts after packets were lost",
        "a shorter ACK timeout of the queue pairs",
        (),
    )


def _hardly_busy_ethernet(run: RunResult) -> tuple[str, str]:
    """Return cause and remedy of a run over Ethernet in which no link is busy for half of the time. The causes are
    rates reduced by congestion control, losses, processors of hosts, or latencies."""
    figures, end = run.outcome.port_figures, max(run.outcome.end_ps, 1)
    busy = f"no link is busy for more than {run.load.max():.0%} of the run"
    drops = int(figures["tail_drops"].sum() + figures["headroom_drops"].sum())
    if drops:
        return f"{busy}; senders repeated {counted(drops, 'dropped frame')}", "fewer senders at once, or larger buffers"
    if marked := int(figures["ecn_marked"].sum()):
        rates = f"congestion control reduced the rates of senders ({counted(marked, 'marked frame')})"
        return f"{busy}; {rates}", "another congestion control, or messages that are long enough for rates to recover"
    cores = float((figures["cpu_send_ps"] + figures["cpu_receive_ps"]).max()) / end
    if cores >= BUSY:
        return f"{busy}; a host's processors work {cores:.0%} of one core", "more connections, or RDMA (network=roce)"
    return f"{busy}; {_waits(run)[0]}", _waits(run)[1]


def engine_loads(run: RunResult) -> list[EngineLoad]:
    """Return, for each other engine, the load of the busiest link between switches with the engine's tables; the lowest
    load comes first. Empty if no link between switches carries traffic. Loads are those of the static layer for the
    same bytes. Engines that cannot route this fabric are omitted."""
    from softib.errors import SoftibError
    from softib.routing import engine as engines
    from softib.scenario.graph_view import graph_of
    from softib.sim.static_network import Network

    if run.outcome.network != "infiniband":
        return []
    graph = graph_of(run.fabric)
    network = Network.build(graph, run.fabric.lft[:, : graph.lft_size])
    base = _busiest_bytes(run, network)
    if base <= 0:
        return []
    loads = []
    for name in sorted(engines.engines()):
        if name == run.engine:
            continue
        try:
            tables = engines.route(graph, name)
        except SoftibError:
            continue
        if tables.engine == name:
            loads.append(EngineLoad(name, _busiest_bytes(run, Network.build(graph, tables.lft)) / base))
    return sorted(loads, key=lambda e: (e.relative, e.engine))


def _busiest_bytes(run: RunResult, network: object) -> float:
    """Return the largest value, over links between switches, of the run's bytes divided by the link's Gb/s."""
    from softib.sim import static
    from softib.sim.static_network import Network

    assert isinstance(network, Network)
    g = network.graph
    rate = run.plane.gbps[run.fabric.port(g.switch_node[network.link_owner], g.out_port.astype(np.int64))]
    row_of = np.full(int(g.end_lid.max(initial=0)) + 1, -1, np.int64)
    row_of[network.host_lid] = np.arange(network.n_hosts)
    lid = run.fabric.lid[run.plane.ends].astype(np.int64)
    src, dst = (row_of[np.minimum(lid[side], len(row_of) - 1)] for side in (run.messages.src, run.messages.dst))
    keep = (src >= 0) & (dst >= 0)
    load = static.loads(network, src[keep], dst[keep], run.messages.size[keep].astype(float)).load[: network.n_links]
    return float(np.divide(load, rate, out=np.zeros(len(load)), where=rate > 0).max(initial=0.0))
