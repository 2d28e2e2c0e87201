"""Display of a simulation on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from softib.analysis.simulation.causes import BUSY
from softib.plural import counted
from softib.render.phrases import bytes_text, time_text
from softib.render.simulation.failures import print_failures
from softib.render.simulation.trace import trace_lines
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_replay", "print_simulation"]

SLOWEST = PORTS = FLOWS = 3
NETWORKS = {"roce": "RoCEv2 over Ethernet", "tcp": "TCP over Ethernet"}
LEAST_CHANGE = 0.02
LEAST_GAIN = 0.8
"""Another engine is mentioned if its busiest link carries at most this share of the load."""


def print_replay(s: dict[str, Any], console: Console) -> None:
    """Print the figures of :meth:`softib.Replay.to_json`."""
    console.print(text(f"{s['program']} on {s['fabric'] or s['source']}", "bold"))
    console.print(
        text(
            f"{counted(s['operations'], 'operation')} of {counted(s['ranks'], 'rank')} completed: "
            f"{_us(s['simulated_us'])} of virtual time, computed in {s['wall_s']:.2f} s",
            "green",
        )
    )
    console.print(text(f"loggops layer, tables: {s['engine']}; it does not model congestion between switches"))
    console.print(
        text(
            f"{counted(s['messages'], 'message')}, {s['bytes']:,} bytes; a rank computes {_us(s['computed_us'])} on "
            f"average"
        )
    )
    console.print(text(f"ranks end from {_us(s['first_rank_ends_us'])} to {_us(s['last_rank_ends_us'])}"))


def print_simulation(s: dict[str, Any], console: Console) -> None:
    """Print the figures of :meth:`softib.Simulation.to_json`."""
    line = lambda *parts: console.print(text(" ".join(parts)))
    console.print(text(f"{s['workload']} on {s['fabric'] or s['source']}", "bold"))
    took = f"{_us(s['simulated_us'])} of virtual time, computed in {s['wall_s']:.2f} s"
    computed = f" and {counted(s['computations'], 'computation')}" if s.get("computations") else ""
    done = text(f"{counted(s['messages'], 'message')}{computed} completed: {took}", "green")
    if s.get("interrupted"):
        console.print(text("Interrupted: the results below cover the virtual time until then.", "bold red"))
    console.print(
        done
        if s["good"]
        else text(f"Not all of {counted(s['messages'], 'message')}{computed} completed: {took}", "bold red")
    )
    line(f"{s['layer']} layer, tables: {s['engine']}, seed {s['seed']}")
    _ethernet(s, console)
    for why in s["why_not"]:
        console.print(text(f"{_missing(s)} may be off by more than 5 %: {why}", "yellow"))
    for note in s["notes"]:
        line(f"Note: {note}")
    if s.get("latency_us"):
        console.print()
        line("latency:", ", ".join(f"{k} {_us(v)}" for k, v in s["latency_us"].items()))
    if "phases" in s:
        line(
            f"{counted(s['phases'], 'phase')}, at most {s['most_flows']} flows on a link "
            f"({counted(s['phases_by_message'], 'phase')} run message by message)"
        )
    print_failures(s, console)
    _jobs(s, console)
    if "trace" in s:
        console.print()
        for row in trace_lines(s["trace"]):
            console.print(text(row), soft_wrap=True)
    _slowest(s, console)
    _ports(s, console)
    _other(s, console)
    _fabrics(s, console)
    _against(s, console)


def _missing(s: dict[str, Any]) -> str:
    """Return the part of a run for which the packet layer may give a different result."""
    from softib.sim.agreement import Agreement

    causes = ", ".join(Agreement(**s["agreement"]).missing)
    return causes[:1].upper() + causes[1:]


def _ethernet(s: dict[str, Any], console: Console) -> None:
    """Print the kind of network of a run over Ethernet, and the counts of its ports and hosts."""
    if "ethernet" not in s:
        return
    e = s["ethernet"]
    control = f", congestion control {s['congestion_control']}" if "congestion_control" in s else ""
    console.print(text(f"{NETWORKS[s['network']]}, hosts at {e['gbps']:g} Gb/s, over shortest paths{control}"))
    drops = e["tail_drops"] + e["headroom_drops"]
    figures = [
        f"{e['pause_frames_sent']:,} pause frames"
        + (f" (a port paused for {e['longest_pause_share']:.0%} of the run)" if e["pause_frames_sent"] else ""),
        f"{drops:,} frames dropped",
        f"{e['ecn_marked']:,} marked",
        f"longest queue {bytes_text(e['peak_queue'])}",
    ]
    if e["cpu_send_us"] or e["cpu_receive_us"]:
        figures.append(f"CPU {_us(e['cpu_send_us'])} to send, {_us(e['cpu_receive_us'])} to receive")
    console.print(text("; ".join(figures)))


def _collective(c: dict[str, Any]) -> str:
    """Return the figures of a collective in one line, as nccl-tests names them."""
    return (
        f"{c['collective']} of {c['ranks']:,} GPUs by {c['algorithm']} {c['protocol']}, "
        f"{counted(c['channels'], 'channel')}: {_us(c['took_us'])}, "
        f"algbw {c['algbw_gbytes']:,.2f} GB/s, busbw {c['busbw_gbytes']:,.2f} GB/s; NCCL {c['nccl']}, "
        f"nodes of {c['machine']}"
    )


def _perftest(p: dict[str, Any]) -> str:
    """Return the figures of a perftest job in one line, as perftest prints them."""
    if "latency_us" in p:
        return f"as perftest: {_us(p['latency_us'])}"
    return f"as perftest: {p['mib_s']:,.2f} MiB/s, {p['mpps']:,.3f} million messages a second"


def _trust(t: dict[str, Any], perftest: dict[str, Any] | None) -> str:
    """Return the reliability of a job's time in one line; the range is that of the first figure that perftest prints,
    if the job is one of its tests."""
    unlike = f" (unlike it: {', '.join(t['differs'])})" if t["differs"] else ""
    low, high = t["low_us"], t["high_us"]
    limits = f"{_us(low)} and {_us(high)}"
    if perftest:
        factor = math.sqrt(high / low) if low > 0 else 1.0
        if "latency_us" in perftest:
            limits = f"{_us(perftest['latency_us'] / factor)} and {_us(perftest['latency_us'] * factor)}"
        else:
            limits = f"{perftest['mib_s'] / factor:,.2f} and {perftest['mib_s'] * factor:,.2f} MiB/s"
    nearest = f"{t['nearest']}, {t['error']:.1%} off in the mean{unlike}"
    return f"{t['verdict']}: between {limits}; nearest measurements {nearest}"


def _training(t: dict[str, Any]) -> str:
    """Return the figures of a training step in one line."""
    shape = f"data {t['data']} × tensor {t['tensor']} × pipeline {t['pipeline']}"
    return (
        f"{t['gpus']:,} GPUs ({shape}), {t['parameters'] / 1e9:,.1f} G parameters: step {_us(t['step_us'])}, "
        f"{t['tflops_per_gpu']:,.1f} TFLOP/s a GPU; computing {t['efficiency']:.1%}, tensor collectives in nodes "
        f"{t['tensor_us'] / t['step_us']:.1%}, expert ones {t['expert_us'] / t['step_us']:.1%}, bubble "
        f"{t['bubble_us'] / t['step_us']:.1%}, the rest {t['rest_us'] / t['step_us']:.1%}; "
        f"{t['tokens_per_s']:,.0f} tokens/s, {t['gpu_hours_per_billion_tokens']:,.1f} GPU-hours for a billion tokens; "
        f"NCCL {t['nccl']}, nodes of {t['machine']}"
    )


def _jobs(s: dict[str, Any], console: Console) -> None:
    for j in s.get("jobs", ()):
        end = (
            f"{_us(j['began_us'])} to {_us(j['ended_us'])}, {j['gbps']:,.1f} Gb/s"
            if j["ended_us"] is not None
            else "not completed"
        )
        console.print(text(f"job {j['job']}: {counted(j['messages'], 'message')}, {bytes_text(j['bytes'])}, {end}"))
        if "nccl" in j:
            console.print(text("  " + _collective(j["nccl"])))
        if "training" in j:
            console.print(text("  " + _training(j["training"])))
        if "perftest" in j:
            console.print(text("  " + _perftest(j["perftest"])))
        if "trust" in j:
            console.print(text("  " + _trust(j["trust"], j.get("perftest"))))
        if j["latency_us"]:
            console.print(text("  latency: " + ", ".join(f"{k} {_us(v)}" for k, v in j["latency_us"].items())))
        if "requests" in j:
            r = j["requests"]
            rate = f", {r['per_s']:,.0f} a second" if "per_s" in r else ""
            tails = ", ".join(f"{q} {_us(r[f'{q}_us'])}" for q in ("p50", "p99", "p99.9"))
            console.print(text(f"  {counted(r['requests'], 'request')}{rate}: {tails}"))
        if "alone" in j and j["alone"]["slowdown"]:
            tail = f", p99 {j['alone']['p99_slowdown']:.2f} times" if j["alone"].get("p99_slowdown") else ""
            console.print(
                text(f"  alone {_us(j['alone']['took_us'])}: {j['alone']['slowdown']:.2f} times as long together{tail}")
            )


def _against(s: dict[str, Any], console: Console) -> None:
    """Print the measured and predicted values of a run with a log, one line per size."""
    if "against" not in s:
        return
    a = s["against"]
    inside = "" if a["inside"] is None else f"; {a['inside']} of {counted(len(a['rows']), 'size')} inside the range"
    console.print(
        text(f"\n{a['job']} against {a['log']} ({a['program']}): {a['mean_error']:.1%} off in the mean{inside}")
    )
    console.print(text(f"{'bytes':>14} {'measured':>12} {'predicted':>12}  error  range, in {a['unit']}"))
    for r in a["rows"]:
        span = "" if r["low"] is None else f"  {r['low']:,.4g} to {r['high']:,.4g}"
        figures = f"{r['bytes']:>14,} {r['measured']:>12,.6g} {r['predicted']:>12,.6g} {r['error']:>+6.1%}"
        console.print(text(figures + span), soft_wrap=True)


def _slowest(s: dict[str, Any], console: Console) -> None:
    console.print()
    for m in s["slowest"][:SLOWEST]:
        if "shift" in m:
            console.print(
                text(
                    f"slowest: shift {m['shift']}: {_us(m['took_us'])}, {counted(m['most_flows'], 'flow')} on the "
                    f"fullest link"
                )
            )
        else:
            console.print(
                text(
                    f"slowest: {m['source']} to {m['destination']}, {bytes_text(m['size'])}: "
                    f"{_us(m['latency_us'])}, {m['gbps']:.1f} Gb/s"
                )
            )


def _ports(s: dict[str, Any], console: Console) -> None:
    shown = s.get("ports", ())[:PORTS]
    whys = {(p["cause"].partition(": ")[2] or p["cause"], p["help"]) for p in shown}
    if len(whys) == 1 and shown and max(p["load"] for p in shown) < BUSY and not any(p["victims"] for p in shown):
        (why, remedy), shown = whys.pop(), ()  # none of these ports limits the run
        console.print()
        console.print(text(f"{why}; would help: {remedy}"))
    for p in shown:
        console.print()
        console.print(
            text(f"{p['port']} to {p['peer']}: busy {p['load']:.1%} of the run, {bytes_text(p['bytes'])}", "bold")
        )
        console.print(text(f"  {p['cause']}"))
        if p["top_flows"]:
            flows = ", ".join(f"{t['source']} to {t['destination']} {t['share']:.0%}" for t in p["top_flows"][:FLOWS])
            console.print(text(f"  {counted(p['flows'], 'flow')} (hop {p['hop']} of {p['hops']}): {flows}"))
        v = p["victims"]
        if v:
            console.print(
                text(
                    f"  behind them waited {counted(v['messages'], 'message')} of {', '.join(v['jobs'])}; the "
                    f"worst, {v['source']} to "
                    f"{v['destination']}, took {v['slowdown']:.1f} times as long as alone"
                )
            )
        console.print(text(f"  would help: {p['help']}"))
    for r in s.get("remedies", ()):
        if r["verified"]:
            console.print(
                text(
                    f"tried {r['change']}: {r['ratio']:.2f} times as long, mean latency {_times(r['mean_ratio'])}, "
                    f"p99 {_tails(r)}"
                )
            )
        else:
            console.print(text(f"not tried {r['change']}: {r['why']}"))


def _tails(r: dict[str, Any]) -> str:
    if len(r["jobs"]) < 2:
        return _times(r["p99_ratio"])
    return ", ".join(f"of {job} {ratio:.2f} times" for job, ratio in r["jobs"].items())


def _times(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:.2f} times"


def _other(s: dict[str, Any], console: Console) -> None:
    better = {e: r for e, r in s.get("other_engines", {}).items() if r <= LEAST_GAIN}
    if better:
        console.print()
        console.print(
            text(
                "other engines: "
                + ", ".join(
                    f"{e}'s busiest link between switches has {r:.0%} of what it has now" for e, r in better.items()
                )
            )
        )
    _sensitivity(s, console)
    for v in s.get("variants", ())[1:]:
        if s.get("sensitivity") and v["change"].partition("=")[0] in s["sensitivity"]:
            continue
        console.print()
        wanted = dict(part.partition("=")[::2] for part in v["change"].split(",")).get("engine", v["engine"])
        instead = (
            f", on the tables of {v['engine']}: {wanted} does not fit"
            if v["engine"] not in (wanted, *v["change"].split(","))
            else ""
        )
        tail = (
            f", p99 {_us(v['latency_us']['p99'])} instead of {_us(s['latency_us']['p99'])}" if v["latency_us"] else ""
        )
        console.print(
            text(
                f"what if {v['change']}: {_us(v['simulated_us'])}, {v['ratio'] or 1.0:.2f} times as "
                f"long{tail}{instead}",
                "bold",
            )
        )
        for note in v["notes"]:
            console.print(text(f"Note: {note}"))
    other = s.get("what_if", {})
    if other and ("ethernet" in s or "ethernet" in other):
        _ethernet(other, console)
        _side_by_side(s, other, console)


def _sensitivity(s: dict[str, Any], console: Console) -> None:
    """Print the change of the completion time with each factor, and the conclusion."""
    factors = s.get("sensitivity")
    if not factors:
        return
    console.print()
    console.print(text(f"{'sensitivity':>12}{'half':>12}{'double':>12}", "bold"))
    for key, ratio in factors.items():
        console.print(text(f"{key:>12}{ratio['half'] - 1:>+12.1%}{ratio['double'] - 1:>+12.1%}"))
    span = {key: abs(math.log(max(ratio["double"], 1e-9) / max(ratio["half"], 1e-9))) for key, ratio in factors.items()}
    most = max(
        factors, key=lambda key: (round(span[key], 2), key == "congestion")
    )  # the factor that narrows the links between switches, if both agree
    change = max((abs(ratio - 1) for both in factors.values() for ratio in both.values()), default=0.0)
    small = f"less than {LEAST_CHANGE:.0%} in any of these: the network does not matter to this workload"
    console.print(text(f"changes {small}" if change < LEAST_CHANGE else f"depends on {most} most"))


def _fabrics(s: dict[str, Any], console: Console) -> None:
    """Print the jobs of all fabrics: the time of each on its fabric, without the other jobs, and with all jobs on
    the first fabric."""
    if "fabrics" not in s:
        return
    console.print()
    for other in s["fabrics"]:
        network = NETWORKS.get(other["over"].partition(",")[0], "InfiniBand")
        done = "" if other["good"] else ", not all messages completed"
        console.print(
            text(
                f"fabric {other['name']}: {other['fabric'] or other['source']}, {network}, "
                f"{_us(other['simulated_us'])}{done}",
                "bold",
            )
        )
        for why in other["why_not"]:
            console.print(text(f"{_missing(other)} may be off there by more than 5 %: {why}", "yellow"))
    shared = {j["job"]: j["took_us"] for v in s.get("variants", ()) if v["change"] == "fabrics=one" for j in v["jobs"]}
    for name, run in (("SOURCE", s), *((other["name"], other) for other in s["fabrics"])):
        for j in run["jobs"]:
            took = None if j["ended_us"] is None else j["ended_us"] - j["began_us"]
            line = f"job {j['job']} on {name}: " + ("not completed" if took is None else _us(took))
            if took and j.get("alone", {}).get("took_us"):
                line += f", {took / j['alone']['took_us']:.2f} times as long as alone"
            if took and shared.get(j["job"]):
                line += f"; all on SOURCE {_us(shared[j['job']])}, {shared[j['job']] / took:.2f} times as long"
            console.print(text(line))


def _side_by_side(s: dict[str, Any], other: dict[str, Any], console: Console) -> None:
    """Print the latencies of a run next to those of this run over another network."""
    names = [s.get("network", "infiniband"), other["change"]]
    wide = max(16, len(names[1]) + 2)
    console.print(text(f"{'':>12}{names[0]:>16}{names[1]:>{wide}}"))
    rows = {"end": [run["simulated_us"] for run in (s, other)]}
    both = s["latency_us"].keys() & other["latency_us"].keys()
    rows |= {key: [run["latency_us"][key] for run in (s, other)] for key in s["latency_us"] if key in both}
    for key, (one, two) in rows.items():
        console.print(text(f"{key:>12}{_us(one):>16}{_us(two):>{wide}}"))


def _us(us: float) -> str:
    return time_text(us * 1e6)
