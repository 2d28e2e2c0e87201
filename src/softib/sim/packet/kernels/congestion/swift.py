"""Swift (Kumar et al., SIGCOMM 2020): windows that keep the delay at a target.

While the delay is below the target, a window grows by ``increase`` per round trip. Above the
target, the window shrinks at most once per round trip: by ``decrease`` times the share of the delay
that exceeds the target, and by at most ``most_decrease`` (algorithm 1). The fabric and the
receiver's host each have a window, and the smaller one applies (section 3.4). The target of the
fabric is larger for longer paths and for smaller windows, so that flows with small windows get more
(section 3.5). A window below one packet becomes a pause between packets. Here an acknowledgement
does not wait for the receiver's memory, so a round trip covers only the fabric. The paper does not
publish its production constants. The ones here are softib's, for links of 100 to 400 Gb/s and
packets of 4 KiB.
"""

import math

import numpy as np

from softib.errors import InputError
from softib.jit import inner
from softib.jit.rows import Rows, f8, i8
from softib.sim.packet.congestion_control import CongestionControl, Option

PS_PER_US = 1_000_000


@inner
def window(net, state, stream):
    """Return the smaller window of ``stream``, in packets."""
    return min(state.cc[stream].fabric, state.cc[stream].host)


@inner
def fabric_target(net, packets, hops):
    """Return the target of the fabric's delay (ps) for a window of ``packets`` and ``hops``
    switches."""
    scale = net.cc.flow_range_us / (1 / math.sqrt(net.cc.flow_least) - 1 / math.sqrt(net.cc.flow_most))
    flow = scale / math.sqrt(packets) - scale / math.sqrt(net.cc.flow_most)
    flow = max(0.0, min(flow, net.cc.flow_range_us))
    return (net.cc.base_target_us + hops * net.cc.hop_us + flow) * PS_PER_US


@inner
def limited(net, packets):
    """Return the window ``packets``, raised or lowered to the limits of windows."""
    return min(max(packets, net.cc.least_window), net.cc.most_window)


@inner
def reacted(net, packets, arrived, delay, target, may_fall):
    """Return the window after the arrival of ``arrived`` packets with ``delay`` (ps)."""
    if delay < target:
        return limited(net, packets + net.cc.increase * arrived / max(packets, 1.0))
    if may_fall:
        keeps = 1 - net.cc.decrease * (delay - target) / delay
        return limited(net, packets * max(keeps, 1 - net.cc.most_decrease))
    return packets


@inner
def acknowledged(net, state, stream, packets, rtt, host, hops, marked, now):
    """Adapt both windows, each to its delay."""
    flow = state.cc[stream]
    before = window(net, state, stream)
    may_fall = now - flow.fell >= flow.rtt
    flow.rtt = rtt
    flow.fabric = reacted(net, flow.fabric, packets, rtt, fabric_target(net, flow.fabric, hops), may_fall)
    flow.host = reacted(net, flow.host, packets, host, net.cc.host_target_us * PS_PER_US, may_fall)
    if window(net, state, stream) < before:
        flow.fell = now


@inner
def lost(net, state, stream, timeouts, now):
    """Shrink the windows after a loss, at most once per round trip; after several timeouts, to the minimum."""
    flow = state.cc[stream]
    keeps = 1.0
    if timeouts >= net.cc.timeouts_to_reset:
        keeps = 0.0
    elif now - flow.fell >= flow.rtt:
        keeps = 1 - net.cc.most_decrease
    if keeps < 1:
        flow.fabric = limited(net, flow.fabric * keeps)
        flow.host = limited(net, flow.host * keeps)
        flow.fell = now


@inner
def paced_until(net, state, stream, start, end):
    """Return when the next packet may leave: if the window is below one packet, ``start`` plus the round trip divided
    by the window; otherwise 0."""
    packets = window(net, state, stream)
    if stream & 1 or packets >= 1:  # responses to READs are not acknowledged
        return np.int64(0)
    return start + np.int64(state.cc[stream].rtt / packets)


def checked(options, gbps):
    """Check ``options``: the two windows between which the target falls must differ."""
    if options["flow_least"] >= options["flow_most"]:
        raise InputError("flow_least of swift must be less than flow_most")
    return options


SWIFT = CongestionControl(
    name="swift",
    text="windows that keep the delay at a target, which depends on hops and window (Kumar et al., SIGCOMM 2020)",
    options=(
        Option("base_target_us", 25.0, "us", "Target delay of the fabric's round trip without switches."),
        Option("hop_us", 1.0, "us", "Addition to the target delay for each switch on the path."),
        Option("host_target_us", 50.0, "us", "Target delay of the receiver's part of the round trip."),
        Option("flow_range_us", 50.0, "us", "Largest addition to the target delay for a small window."),
        Option(
            "flow_least",
            0.1,
            "packets",
            "Up to this window, the target delay is increased by the full flow_range_us.",
            low=0.001,
        ),
        Option("flow_most", 100.0, "packets", "From this window on, the target delay is not increased.", low=0.001),
        Option("increase", 1.0, "packets", "Increase of a window per round trip.", low=0.001),
        Option(
            "decrease",
            0.8,
            "1",
            "Factor of a window's decrease, which is this times (delay - target delay) / delay.",
            most=1,
        ),
        Option("most_decrease", 0.5, "1", "Largest decrease of a window, as a share of the window.", most=0.999),
        Option("start_window", 32.0, "packets", "Initial window of a flow.", low=0.001),
        Option("least_window", 0.01, "packets", "Smallest window.", low=0.001),
        Option("most_window", 256.0, "packets", "Largest window.", low=0.001),
        Option(
            "timeouts_to_reset",
            5.0,
            "count",
            "Number of consecutive ACK timeouts after which a window is set to the smallest.",
        ),
    ),
    flow=Rows(
        "Swift's windows.",
        f8("fabric", "packets", "Window by the fabric's delay."),
        f8("host", "packets", "Window by the receiver's delay."),
        i8("rtt", "ps", "Last round trip, without the receiver's part."),
        i8("fell", "ps", "Time of the last decrease of a window."),
    ),
    derived=checked,
    first={"fabric": "start_window", "host": "start_window"},
    window=window,
    acknowledged=acknowledged,
    lost=lost,
    paced_until=paced_until,
)
