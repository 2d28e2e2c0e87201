"""A Prometheus server as a source: what it scraped from ``softib exporter`` or treydock's exporter,
by its HTTP API.

Samples are floats there: counters of bytes above 2^53 have lost their last digits. The label
``guid`` of an HCA is its PortGUID; with a fabric beside, ports have their NodeGUID again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError
from softib.monitor.exporter.names import PORT_COUNTERS, SOFTIB_COUNTERS
from softib.monitor.prometheus_answers import Series, answer_of
from softib.monitor.ranking import ERRORS
from softib.monitor.scrapes import Key, Scrapes, target_of
from softib.monitor.series import observations_of
from softib.plain_values import whole_number
from softib.source import load

__all__ = ["ask", "ask_range", "error_metrics", "key_of", "observations_of_server", "ports_at"]

MOST_LID = 0xBFFF
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")
SELECTOR = '{__name__=~"infiniband_(switch|hca)_port_.+_total|softib_port_.+_total"}'
UPLINKS = '{__name__=~"infiniband_(switch|hca)_uplink_info"}'
RATES = '{__name__=~"infiniband_(switch_port|hca)_rate_bytes_per_second"}'
_FIELDS = {
    f"infiniband_{kind}_port_{c.treydock}_total": (c.field, c.factor)
    for kind in ("switch", "hca")
    for c in PORT_COUNTERS
}
_FIELDS |= {metric: (name, 1) for name, metric, _ in SOFTIB_COUNTERS}


def observations_of_server(
    url: str,
    rounds: int,
    every_s: float,
    fabric: str | None = None,
    *,
    time_s: float | None = None,
    node_guids: Mapping[int, int] | None = None,
) -> Observations:
    """What the server at ``url`` has of the last ``rounds`` × ``every_s`` seconds, or of those
    before the clock time ``time_s``. ``fabric``: the source whose NodeGUIDs the ports get,
    ``node_guids``: the same, by PortGUID. Raises :class:`PeerError` where it does not answer,
    :class:`InputError` where it has nothing of a fabric."""
    window_s = max(1, round(rounds * every_s))
    scrapes = Scrapes()
    for one in ask(url, f"{SELECTOR}[{window_s}s]", time_s):
        name, key = one.labels.get("__name__", ""), key_of(one.labels)
        if name in _FIELDS and key is not None:
            field, factor = _FIELDS[name]
            scrapes.add(target_of(one.labels), field, key, one.samples, factor)
    scrapes.refuse_too_many(url)
    if scrapes.most < 2:
        raise InputError(
            f"{url}: {scrapes.most} scrapes of InfiniBand ports in the last {window_s} s; two are needed: ask for "
            f"more time, or let it scrape 'softib exporter'"
        )
    # Cables as of the last scrape: of an exporter that has stopped since, the server says nothing more of now.
    ports, intervals = ports_of_keys(url, scrapes.keys, scrapes.last_s), scrapes.intervals()
    if fabric is not None:
        node_guids = _node_guids(fabric)
    if node_guids is not None:
        ports = _with_node_guids(ports, node_guids)
        intervals = [replace(one, guid=_renamed(one.guid, node_guids)) for one in intervals]
    return observations_of(ports, intervals)


def _node_guids(fabric: str) -> dict[int, int]:
    f = load(fabric, notice=lambda line: None).fabric
    whose = dict(zip(f.port_guid.tolist(), f.node_guid[f.port_node].tolist(), strict=True))
    whose.pop(0, None)
    return whose


def _renamed(guid: np.ndarray, whose: Mapping[int, int]) -> np.ndarray:
    """NodeGUIDs for PortGUIDs; one that ``whose`` does not know stays. uint64[n]"""
    return np.array([whose.get(g, g) for g in guid.tolist()], np.uint64)


def _with_node_guids(ports: ObservedPorts, whose: Mapping[int, int]) -> ObservedPorts:
    """The ports under their NodeGUIDs, sorted anew."""
    guid = _renamed(ports.node_guid, whose)
    order = np.lexsort((ports.portnum, guid))
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    peer = np.where(ports.peer >= 0, row[np.maximum(ports.peer, 0)], -1)[order].astype(np.int32)
    text = {"port_guid": np.array([f"{g:#018x}" for g in ports.node_guid[order].tolist()], object)}
    return ObservedPorts(
        guid[order],
        ports.portnum[order],
        ports.switch[order],
        tuple(ports.node[i] for i in order.tolist()),
        ports.lid[order],
        peer,
        ports.rate_gbps[order],
        text,
    )


def ask(url: str, query: str, time_s: float | None = None) -> list[Series]:
    """The result of an instant query, now or at a clock time. Raises :class:`PeerError` where no
    Prometheus answers."""
    return answer_of(url, "query", {"query": query} | ({} if time_s is None else {"time": f"{time_s:.3f}"}))


def ask_range(url: str, query: str, since_s: float, until_s: float, step_s: float) -> list[Series]:
    """The series of a query at times ``step_s`` apart. Raises :class:`PeerError`."""
    given = {"query": query, "start": f"{since_s:.3f}", "end": f"{until_s:.3f}", "step": f"{step_s:.3f}"}
    return answer_of(url, "query_range", given)


def error_metrics() -> str:
    """A selector of all counters of errors that :data:`softib.monitor.ranking.ERRORS` names, under
    treydock's names."""
    names = "|".join(c.treydock for c in PORT_COUNTERS if c.field in ERRORS)
    return f"{{__name__=~'infiniband_(switch|hca)_port_({names})_total'}}"


def ports_at(url: str, time_s: float) -> ObservedPorts:
    """Every port that had a cable at a clock time."""
    found = {key: one for one in ask(url, UPLINKS, time_s) if (key := key_of(one.labels)) is not None}
    return ports_of_keys(url, sorted(found), time_s)


def key_of(labels: Mapping[str, str]) -> Key | None:
    """(GUID, portnum) of a series; None where it has none."""
    guid, portnum = _GUID.fullmatch(labels.get("guid", "")), whole_number(labels.get("port", ""))
    return None if guid is None or portnum is None or portnum > 255 else (int(guid[1], 16), portnum)


def ports_of_keys(url: str, keys: list[Key], time_s: float | None = None) -> ObservedPorts:
    """The ports ``keys`` with what the uplink metrics say of them."""
    n = len(keys)
    row = {key: i for i, key in enumerate(keys)}
    rows_of: dict[int, list[int]] = {}
    for i, (g, _) in enumerate(keys):
        rows_of.setdefault(g, []).append(i)
    node, peer, lid, switch, rate = (
        [f"{g:#018x}" for g, _ in keys],
        np.full(n, -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, bool),
        np.zeros(n),
    )
    for one in ask(url, UPLINKS, time_s):
        labels, key = one.labels, key_of(one.labels)
        at = row.get(key) if key is not None else None
        if at is None:
            continue
        switch[at] = "switch" in labels
        node[at] = labels.get("switch") or labels.get("hca") or node[at]
        remote = key_of({"guid": labels.get("uplink_guid", ""), "port": labels.get("uplink_port", "")})
        if remote in row:
            peer[at] = row[remote]
            lid[row[remote]] = min(whole_number(labels.get("uplink_lid", "")) or 0, MOST_LID)
    for one in ask(url, RATES, time_s):
        labels, value = one.labels, one.last
        key = key_of({"guid": labels.get("guid", ""), "port": labels.get("port", "0")})
        if key is None or value is None or value < 0:
            continue
        mine = rows_of.get(key[0], []) if "port" not in labels else [row[key]] if key in row else []
        rate[mine] = value * 8 / 1e9  # of an HCA each port has a GUID of its own, and no number here
    guid, number = np.array([g for g, _ in keys], np.uint64), np.array([p for _, p in keys], np.int32)
    return ObservedPorts(guid, number, switch, tuple(node), lid, peer, rate)
