"""Flows and links of the fluid layer before the first event: messages of one path are a flow, ports are
links of one channel per VL, and VL arbitration tables give the shares of a link (IBA 7.6.9, 14.2.5.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.iba.smp import PortInfo
from softib.sim.fluid.tables import i4, i8
from softib.sim.messages import Messages
from softib.sim.paths import Laid, Plane

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["Weights", "flows_and_links", "shared_paths", "weights_of"]

UNLIMITED = 255
"""Value of HighLimit: low priority sends only if no high-priority packet waits."""
LIMIT_OCTETS, LOW_PACKET = 4096, 4096
"""Bytes of one unit of HighLimit, and of the low-priority packet that may then be sent (one MTU).
"""


MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier for hashes of paths: 2^64 divided by the golden ratio."""


class Weights(NamedTuple):
    """VL arbitration of channels (port and VL)."""

    high: np.ndarray
    """Weight in the high-priority table, float64."""
    low: np.ndarray
    """Weight in the low-priority table, float64."""
    high_share: np.ndarray
    """Share of the high-priority table if both tables have data."""
    idle: np.ndarray
    """True if no table serves the VL although a table serves others: the VL then has the lowest weight, 1."""


def weights_of(fabric: Fabric, port: np.ndarray, vl: np.ndarray) -> Weights:
    """Return the weights of channels (``port``, ``vl``) in both tables.

    The high-priority table sends HighLimit × 4 KiB before a packet of the low one may be sent (0:
    one packet each). Tables without entries, as before the manager writes them, serve all VLs equally.
    """
    tables = fabric.vl_arb[port].reshape(len(port), 2, 64, -1).reshape(len(port), 2, 128)
    entries = tables.reshape(len(port), 2, 64, 2)  # low and high table; each entry is a VL and a weight
    wanted = (entries[..., 0] & 15) == vl[:, None, None]
    weight = (entries[..., 1] * wanted).sum(axis=2).astype(np.float64)
    written = entries[..., 1].any(axis=(1, 2))
    idle = written & (weight.sum(axis=1) == 0)
    low = np.where(written, np.where(idle, 1.0, weight[:, 0]), 1.0)
    high = np.where(written, weight[:, 1], 0.0)
    limit = PortInfo.vl_high_limit.get(fabric.port_info[port]).astype(np.float64)
    octets = np.where(limit == 0, LOW_PACKET, limit * LIMIT_OCTETS)
    share = np.where(limit == UNLIMITED, 1.0 - 1e-6, octets / (octets + LOW_PACKET))
    return Weights(high, low, share, idle)


class FluidColumns(NamedTuple):
    """Columns of a fluid run."""

    flows: Any
    """:data:`~softib.sim.fluid.maxmin_kernels.Flows`."""
    links: Any
    """:data:`~softib.sim.fluid.maxmin_kernels.Links`."""
    flow: np.ndarray
    """By message: its flow."""
    port: np.ndarray
    """By channel: 16 * port + VL; -1: it belongs to no port."""
    idle: np.ndarray
    """By channel: True if no arbitration table serves it."""


class LimitedPaths(NamedTuple):
    """The channels of each message's path, including the additional channels that represent limits, and the rate of
    each channel."""

    first: np.ndarray
    channel: np.ndarray
    port: np.ndarray
    gbps: np.ndarray


class LinkChains(NamedTuple):
    """Links: the channels of one egress port are one link."""

    group: np.ndarray
    """By channel: its link."""
    link_next: np.ndarray
    """By channel: the next channel of its link, -1: none."""
    head: np.ndarray
    """By link: its first channel."""
    several: np.ndarray
    """By link: True if it has more than one channel."""


def flows_and_links(plane: Plane, m: Messages, laid: Laid) -> FluidColumns:
    """Return the columns of the messages ``m`` on the paths ``laid``."""
    from softib.sim.fluid.maxmin_kernels import Flows, Links

    path_first, path_channel, port, gbps = _with_limits(plane, m, laid)
    flow, row = shared_paths(path_first, path_channel)
    first, channel = _paths_of(path_first, path_channel, row)
    n, entries, channels = len(row), len(channel), len(port)
    owner = np.repeat(np.arange(n, dtype=np.int32), np.diff(first))
    flows = Flows(
        first=first,
        channel=channel,
        owner=owner,
        next=i4(entries),
        prev=i4(entries),
        rate=np.zeros(n),
        fresh=np.zeros(n),
        bottleneck=i4(n, -1),
        slot=i4(n),
        member=i8(n),
        frozen=i4(n),
        messages=i8(n),
        served=np.zeros(n),
        last=i8(n),
        soonest=i8(n, -1),
        final=i8(n, -1),
    )
    chains, weights = _links(port), _weights(plane, port)
    links = Links(
        head=i4(channels, -1),
        flows=i4(channels),
        group=chains.group,
        link_next=chains.link_next,
        link_head=chains.head,
        gbps=gbps[chains.head],
        several=chains.several,
        high=weights.high,
        low=weights.low,
        high_share=weights.high_share[chains.head],
        marked=i8(channels),
        open=i4(channels),
        used=np.zeros(channels),
        only=i4(channels),
        heap=i4(channels),
        level=np.zeros(channels),
    )
    return FluidColumns(flows, links, flow, port, weights.idle)


def shared_paths(first: np.ndarray, channel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(flow, row)``: the flow of each message (int32; messages with the same channels in the same order are
    one flow), and one message of each flow."""
    lengths = np.diff(first)
    flow, row = np.zeros(len(lengths), np.int64), np.zeros(0, np.int64)
    for length in np.unique(lengths).tolist():
        of = np.flatnonzero(lengths == length)
        path = channel[first[of][:, None] + np.arange(length)]
        mixed = path.astype(np.uint64) @ MIX ** np.arange(1, length + 1, dtype=np.uint64)
        order = np.argsort(mixed, kind="stable")  # groups equal hashes; paths are compared below
        new = np.ones(len(of), bool)
        new[1:] = (path[order[1:]] != path[order[:-1]]).any(axis=1)
        flow[of[order]] = len(row) + np.cumsum(new) - 1
        row = np.concatenate([row, of[order[new]]])
    by_row = np.argsort(row)
    place = np.empty(len(row), np.int32)
    place[by_row] = np.arange(len(row))
    return place[flow], row[by_row]


def _paths_of(first: np.ndarray, channel: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(first, channel)`` with the paths of only the messages ``row``."""
    lengths = np.diff(first)[row]
    begin = np.concatenate([[0], np.cumsum(lengths)])
    entry = np.arange(begin[-1]) + np.repeat(first[row] - begin[:-1], lengths)
    return begin, channel[entry]


def _with_limits(plane: Plane, m: Messages, laid: Laid) -> LimitedPaths:
    """Return the paths with two kinds of additional channels. A link limited by credits is preceded by a channel with
    the rate of one VL (``port``: -2 - the link's port). The path of a message with a static rate, or without any link
    (to itself, or between ports 0), begins with an additional channel (its ``port`` is -1)."""
    rows = laid.port >> 4
    vl_gbps = plane.credits.gbps[rows]
    slow_vls = np.flatnonzero(np.isfinite(vl_gbps))
    lengths = np.diff(laid.first)
    alone = (lengths == 0) & (laid.why == 0)
    limit = np.where(m.rate_gbps > 0, m.rate_gbps, np.inf)
    if alone.any():
        fastest = float(plane.gbps.max(initial=1.0))
        port_rate = plane.gbps[plane.ends[m.src]]
        limit = np.where(alone, np.minimum(limit, np.where(port_rate > 0, port_rate, fastest)), limit)
    limited = np.flatnonzero(np.isfinite(limit) & (laid.why == 0))
    if not len(limited) and not len(slow_vls):
        return LimitedPaths(laid.first, laid.channel, laid.port, plane.link_gbps[rows])
    added_of = np.full(laid.channels, -1)
    added_of[slow_vls] = laid.channels + np.arange(len(slow_vls))
    entries = np.flatnonzero(added_of[laid.channel] >= 0)
    place = np.concatenate([laid.first[limited], entries])
    added = np.concatenate([laid.channels + len(slow_vls) + np.arange(len(limited)), added_of[laid.channel[entries]]])
    channel = np.insert(laid.channel, place, added)
    before = np.zeros(len(m) + 1, np.int64)
    before[1:] = np.cumsum(np.bincount(np.searchsorted(laid.first, entries, side="right") - 1, minlength=len(m)))
    before[1:] += np.cumsum(np.isin(np.arange(len(m)), limited))
    port = np.concatenate([laid.port, -2 - laid.port[slow_vls], np.full(len(limited), -1)])
    gbps = np.concatenate([plane.link_gbps[rows], vl_gbps[slow_vls], limit[limited]])
    return LimitedPaths(laid.first + before, channel.astype(np.int32), port, gbps)


def _links(port: np.ndarray) -> LinkChains:
    """Return the links of the channels."""
    n = len(port)
    key = np.where(port >= 0, port >> 4, -1 - np.arange(n))
    order = np.argsort(key, kind="stable").astype(np.int32)
    sorted_key = key[order]
    begins = np.ones(n, bool)
    begins[1:] = sorted_key[1:] != sorted_key[:-1]
    group = np.empty(n, np.int32)
    group[order] = np.cumsum(begins) - 1
    link_next = np.full(n, -1, np.int32)
    link_next[order[:-1]] = np.where(begins[1:], -1, order[1:])
    head = order[begins]
    return LinkChains(group, link_next, head, (link_next[head] >= 0).astype(np.uint8))


def _weights(plane: Plane, port: np.ndarray) -> Weights:
    n = len(port)
    shared = np.unique(port[port >= 0] & 15)
    if len(shared) < 2:  # one VL: no arbitration
        return Weights(np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n, bool))
    weights = weights_of(plane.fabric, np.maximum(port, 0) >> 4, np.maximum(port, 0) & 15)
    return weights._replace(idle=weights.idle & (port >= 0))
