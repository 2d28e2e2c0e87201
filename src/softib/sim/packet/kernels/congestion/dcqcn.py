"""DCQCN (Zhu et al., SIGCOMM 2015): rate control of RoCEv2 queue pairs by ECN.

Notification point: a receiver answers marked packets of a flow with a CNP, at most one every CNP
interval. Reaction point: a CNP cuts the rate by alpha / 2 and raises alpha. Without CNPs alpha
falls, and timer and byte counter raise the rate: halfway back to the target (fast recovery), then
with a target raised by R_AI (additive increase), then by R_HAI (hyper increase). The sender applies
overdue timer steps when it next sends, or next receives a CNP, because no packet depends on the
rate in between. A flow is a stream: a queue pair's requests, or its responses to READs. The rate of
responses is computed too; the responder decides whether to apply it.
"""

import numpy as np

from softib.jit import inner
from softib.jit.rows import Rows, i8
from softib.sim.packet.congestion_control import CongestionControl, Option
from softib.sim.packet.constants import CNP, MILLION
from softib.sim.packet.kernels.hca.acks import control

CNP_OCTETS = 78
"""Bytes of a CNP: Ethernet 14 and FCS 4, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4 (IBA annex A17.9.3)."""
PS_KBPS = 8_000_000_000
"""Bytes × this constant / rate in kb/s = time in ps."""


@inner
def notification_point(net, state, port, k):
    """Handle the marked packet ``k``, which arrived at ``port``. Returns the port that must check what it can send, -1
    if no CNP is due."""
    state.port[port].rcv_fecn += 1
    stream, now = np.int64(state.packet[k].stream), state.reg.now
    q = stream >> 1
    last = state.cc[stream].cnp_sent
    if last and now + 1 - last < net.cc.cnp_ps:
        return np.int64(-1)
    state.cc[stream].cnp_sent = now + 1
    if stream & 1:  # a response, whose sender is the destination of the requests
        lid, vl = state.message[state.order[state.qp[q].first_message]].lid, state.qp[q].out_vl
    else:
        lid, vl = state.qp[q].back_lid, state.qp[q].back_vl
    control(net, state, port, stream, CNP, np.int64(0), lid, vl)
    state.packet[state.vl_more[port * net.opt.vls + vl].last_control].octets = CNP_OCTETS
    return port


@inner
def increase(net, state, stream, line):
    """Raise the rate after a step of the timer or of the byte counter."""
    flow = state.cc[stream]
    most, least = max(flow.time_steps, flow.byte_steps), min(flow.time_steps, flow.byte_steps)
    if least > net.cc.fast_recovery:
        flow.rate_target = min(flow.rate_target + net.cc.rate_hai, line)
    elif most >= net.cc.fast_recovery:
        flow.rate_target = min(flow.rate_target + net.cc.rate_ai, line)
    flow.rate_now = (flow.rate_now + flow.rate_target + 1) >> 1
    if flow.rate_now >= line:
        flow.limited = 0


@inner
def catch_up(net, state, stream, line, now):
    """Apply the timer steps of ``stream`` until ``now``."""
    flow = state.cc[stream]
    while flow.alpha > 0 and flow.alpha_at <= now:
        flow.alpha -= (flow.alpha * net.cc.gain + MILLION - 1) // MILLION
        flow.alpha_at += net.cc.alpha_ps
    while flow.limited and flow.rate_at <= now:
        flow.time_steps += 1
        flow.rate_at += net.cc.rate_ps
        increase(net, state, stream, line)


@inner
def reaction_point(net, state, port, stream, now):
    """Handle a CNP at ``port`` for the flow ``stream``: lower the rate."""
    state.port[port].rcv_becn += 1
    flow, line = state.cc[stream], net.buffer[port].line_kbps
    flow.cnps += 1
    if flow.cnps == 1:
        flow.alpha = MILLION
        flow.rate_now = line
    else:
        catch_up(net, state, stream, line, now)
    if not flow.limited:
        flow.rate_now = line
    flow.limited = 1
    flow.rate_target = flow.rate_now
    flow.rate_now = max(flow.rate_now - flow.rate_now * flow.alpha // (2 * MILLION), net.cc.rate_min)
    flow.alpha += (MILLION - flow.alpha) * net.cc.gain // MILLION
    flow.alpha_at = now + net.cc.alpha_ps
    flow.rate_at = now + net.cc.rate_ps
    flow.octets = 0
    flow.byte_steps = 0
    flow.time_steps = 0


@inner
def sender_of(state, stream):
    """Return the port that sends ``stream``."""
    return state.qp[stream >> 1].dst if stream & 1 else state.qp[stream >> 1].src


@inner
def limited_until(net, state, stream, start, end):
    """Return when ``stream`` may send again after a packet that was on the wire from ``start`` to
    ``end``; 0 if DCQCN does not limit it."""
    flow = state.cc[stream]
    if not flow.limited:
        return np.int64(0)
    line = net.buffer[sender_of(state, stream)].line_kbps
    catch_up(net, state, stream, line, start)
    octets = (end - start) * line // PS_KBPS
    flow.octets += octets
    if flow.limited and flow.octets >= net.cc.byte_counter:
        flow.octets -= net.cc.byte_counter
        flow.byte_steps += 1
        increase(net, state, stream, line)
    return start + octets * PS_KBPS // flow.rate_now if flow.limited else np.int64(0)


AI_40, REFERENCE_GBPS = 40.0, 40.0
"""R_AI in Mb/s at 40 Gb/s (Zhu et al. 2015, figure 14)."""
PS_PER_US = 1_000_000


def derived(options, gbps):
    """Return the settings for hosts with links of ``gbps``. Additive and hyper increase are proportional to this rate,
    unless an option sets them."""
    scale = gbps / REFERENCE_GBPS
    return {
        "cnp_ps": round(options["cnp_us"] * PS_PER_US),
        "alpha_ps": round(options["alpha_us"] * PS_PER_US),
        "rate_ps": round(options["rate_timer_us"] * PS_PER_US),
        "byte_counter": options["byte_counter"],
        "gain": round(options["gain"] * MILLION),
        "rate_ai": round(1000 * (options["rate_ai_mbps"] or AI_40 * scale)),
        "rate_hai": round(1000 * (options["rate_hai_mbps"] or 10 * AI_40 * scale)),
        "fast_recovery": options["fast_recovery"],
        "rate_min": round(1000 * options["rate_min_mbps"]),
    }


DCQCN = CongestionControl(
    name="dcqcn",
    text="rates by ECN and CNPs (Zhu et al., SIGCOMM 2015)",
    options=(
        Option("cnp_us", 50.0, "us", "Time between two CNPs of a flow.", low=0.001),
        Option("alpha_us", 55.0, "us", "Period of the timer that updates alpha.", low=0.001),
        Option("rate_timer_us", 55.0, "us", "Period of the rate-increase timer T.", low=0.001),
        Option(
            "byte_counter", 10_000_000, "bytes", "Bytes sent between two rate increases (the byte counter B).", low=1
        ),
        Option("gain", 1 / 256, "1", "The gain g of alpha.", low=1e-6, most=1),
        Option("rate_ai_mbps", 0.0, "Mb/s", "Additive increase; 0: 40 at 40 Gb/s, scaled with the rate."),
        Option("rate_hai_mbps", 0.0, "Mb/s", "Hyper increase; 0: ten times the additive increase, as in adapters."),
        Option("fast_recovery", 5, "steps", "Number F of steps of fast recovery.", low=1),
        Option("rate_min_mbps", 40.0, "Mb/s", "Smallest rate.", low=0.001),
    ),
    settings=Rows(
        "Settings of DCQCN.",
        i8("cnp_ps", "ps", "Time between two CNPs of a flow."),
        i8("alpha_ps", "ps", "Period of the timer that updates alpha."),
        i8("rate_ps", "ps", "Period of the rate-increase timer T."),
        i8("byte_counter", "bytes", "Bytes sent between two rate increases (the byte counter B)."),
        i8("gain", "millionths", "G."),
        i8("rate_ai", "kb/s", "Additive increase."),
        i8("rate_hai", "kb/s", "Hyper increase."),
        i8("fast_recovery", "steps", "F, steps of fast recovery."),
        i8("rate_min", "kb/s", "Smallest rate."),
    ),
    derived=derived,
    flow=Rows(
        "DCQCN of a stream (RoCE).",
        i8("limited", "flag", "The reaction point limits the rate."),
        i8("rate_now", "kb/s", "Current rate."),
        i8("rate_target", "kb/s", "Target rate."),
        i8("alpha", "millionths", "Alpha."),
        i8("alpha_at", "ps", "When alpha falls next."),
        i8("rate_at", "ps", "When the rate rises next."),
        i8("octets", "bytes", "Sent since the byte counter's last step."),
        i8("byte_steps", "steps", "Steps of the byte counter."),
        i8("time_steps", "steps", "Steps of the timer."),
        i8("cnp_sent", "ps + 1", "When the notification point last sent a CNP; 0: never."),
        i8("cnps", "packets", "CNPs that arrived."),
    ),
    paced_until=limited_until,
    notice=notification_point,
    noticed=reaction_point,
    marks=True,
)
