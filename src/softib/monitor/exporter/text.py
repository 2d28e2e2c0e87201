"""The text of a scrape: one round as lines of Prometheus' text format (version 0.0.4), written directly from
columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.errors import UnknownName
from softib.monitor.exporter.labels import (
    Labels,
    escaped,
    guilbaults_labels,
    hca_name,
    port_guids,
    port_labels,
    uplink_labels,
)
from softib.monitor.exporter.names import (
    GUILBAULTS,
    HISTOGRAM,
    LANES,
    PORT_COUNTERS,
    SCHEMES,
    SOFTIB_COUNTERS,
    STATE,
    STUCK,
    TREYDOCK,
    Metric,
)
from softib.monitor.exporter.ratios import ErrorRatios, bit_error_ratios, upper_bound, utilization, wait_ratio
from softib.monitor.exporter.service_metrics import down_states
from softib.monitor.exporter.text_kernels import write_counters, write_gauges, write_histograms
from softib.monitor.files import checked_pair, read_snapshot
from softib.monitor.intervals import Interval, between
from softib.monitor.reading import Reading
from softib.monitor.registers import HISTOGRAM as HISTOGRAMS
from softib.monitor.seen_ports import SeenPorts

__all__ = ["PortText", "text_of_files"]

LONGEST_NUMBER = 24
_HELP = {m.name: m for m in (*TREYDOCK, *GUILBAULTS, *STATE, LANES)}
_BYTES_PER_GBIT = 1e9 / 8
_LEVELS = {
    "state": "softib_port_state",
    "physical_state": "softib_port_physical_state",
    "fec_corrects": "softib_port_fec_limit_symbols",
    "temperature_c": "softib_device_temperature_celsius",
    "module_temperature_c": "softib_module_temperature_celsius",
    "module_temperature_high_c": "softib_module_temperature_high_alarm_celsius",
    "module_voltage_v": "softib_module_voltage_volts",
    "module_rx_power_dbm": "softib_module_receive_power_dbm",
    "module_rx_power_low_dbm": "softib_module_receive_power_low_alarm_dbm",
    "module_tx_power_dbm": "softib_module_transmit_power_dbm",
    "module_tx_power_low_dbm": "softib_module_transmit_power_low_alarm_dbm",
}
"""Level of a reading → metric."""
_PIECES = tuple(
    np.frombuffer(w.encode(), np.uint8).copy() for w in ("_bucket", "_sum", "_count", ',le="', '"}', "+Inf")
)


class PortText:
    """The text of the metrics of ``ports``, with the metric names of ``scheme``. Raises :class:`UnknownName` for
    another scheme."""

    def __init__(self, ports: ObservedPorts, scheme: str = "treydock"):
        if scheme not in SCHEMES:
            raise UnknownName("set of metric names", scheme, SCHEMES)
        self.ports, self.scheme = ports, scheme
        self._port = port_labels(ports)
        self._of = self._port if scheme == "treydock" else guilbaults_labels(ports)
        self._uplink = uplink_labels(ports) if scheme == "treydock" else None
        self._switch, self._hca = np.flatnonzero(ports.switch), np.flatnonzero(~ports.switch)
        self._guid = port_guids(ports)
        self._devices = _first_of_device(ports)
        self._out = np.empty(1 << 20, np.uint8)
        self._at = 0

    def text(
        self, reading: Reading, interval: Interval | None, ratios: ErrorRatios, seen: SeenPorts | None = None
    ) -> bytes:
        """Return all lines of one round. Data that was not read in this round is left out, except the states of
        devices, ports and cables that are down according to ``seen``."""
        self._at = 0
        for c in PORT_COUNTERS:
            if c.field not in reading.value:
                continue
            if self.scheme == "treydock":
                for kind, label, which in (("switch", "a switch", self._switch), ("hca", "an HCA", self._hca)):
                    metric = Metric(
                        f"infiniband_{kind}_port_{c.treydock}_total", "counter", (), f"{c.spec} of {label} port"
                    )
                    self._counter(
                        metric, self._of, which[reading.have[c.field][which]], reading.value[c.field], c.factor
                    )
            else:
                metric = Metric(f"infiniband_{c.guilbaults or c.spec.lower()}_total", "counter", (), c.spec)
                self._counter(metric, self._of, np.flatnonzero(reading.have[c.field]), reading.value[c.field], c.factor)
        for name, metric_name, help_text in SOFTIB_COUNTERS:
            if name in reading.value:
                metric = Metric(metric_name, "counter", (), help_text)
                self._counter(metric, self._port, np.flatnonzero(reading.have[name]), reading.value[name])
        self._lanes(reading)
        self._stuck(reading)
        self._histograms(reading)
        self._states(reading, interval, ratios, seen)
        self._infos(reading)
        return self._out[: self._at].tobytes()

    # -- parts --

    def _lanes(self, r: Reading) -> None:
        if r.lanes is None:
            return
        rows, number = np.nonzero((r.lanes > 0) & r.have["fec_correctable_block_ctr"][:, None])
        numbers = self.ports.portnum
        self._head(LANES)
        lines = [
            f'{LANES.name}{{guid="{self._guid[p]}",port="{int(numbers[p])}",lane="{k}"}} {int(r.lanes[p, k])}\n'
            for p, k in zip(rows.tolist(), number.tolist(), strict=True)
        ]
        self._raw("".join(lines))

    def _stuck(self, r: Reading) -> None:
        rows = [(name, np.flatnonzero(full & r.have[name])) for name, full in r.stuck.items() if full.any()]
        if any(len(which) for _, which in rows):
            self._head(STUCK)
        for name, which in rows:
            lines = [
                f'{STUCK.name}{{guid="{self._guid[p]}",port="{self.ports.portnum[p]}",counter="{name}"}} 1\n'
                for p in which.tolist()
            ]
            self._raw("".join(lines))

    def _histograms(self, r: Reading) -> None:
        if HISTOGRAMS[0] not in r.have or "fec_corrects" not in r.level:
            return
        limit = r.level["fec_corrects"]
        rows = np.flatnonzero(r.have[HISTOGRAMS[0]] & ~np.isnan(limit))
        if not len(rows):
            return
        bins = np.stack([r.value[name] for name in HISTOGRAMS], axis=1)
        last = np.where(np.isnan(limit), -1, limit).astype(np.int64)
        lines = int((last[rows] + 4).sum())
        name = self._begin(HISTOGRAM, self._port, lines * 2)
        self._at = int(
            write_histograms(self._out, self._at, name, self._port.text, self._port.offsets, rows, bins, last, _PIECES)
        )

    def _states(self, r: Reading, interval: Interval | None, ratios: ErrorRatios, seen: SeenPorts | None) -> None:
        columns = {f"softib_port_{kind}_ber": ratio for kind, ratio in bit_error_ratios(r, ratios).items()}
        errors, bits, seconds = ratios.of("symbol")
        with np.errstate(divide="ignore", invalid="ignore"):
            columns["softib_port_symbol_ber_upper"] = np.where(bits > 0, upper_bound(errors) / bits, np.nan)
        columns["softib_port_observed_seconds"] = np.where(seconds > 0, seconds, np.nan)
        if interval is not None:
            columns["softib_port_transmit_wait_ratio"] = wait_ratio(interval)
            columns["softib_port_transmit_utilization_ratio"] = utilization(interval)
        for level, name in _LEVELS.items():
            if level in r.level:
                columns[name] = r.level[level]
        if "module_tx_bias_ma" in r.level:
            columns["softib_module_transmit_bias_amperes"] = r.level["module_tx_bias_ma"] / 1e3
        stuck = np.zeros(len(r))
        for name, column in r.stuck.items():
            stuck += column & r.have[name]
        columns["softib_port_stuck_counters"] = np.where(stuck > 0, stuck, np.nan)
        for name, values in columns.items():
            rows = np.flatnonzero(r.answered & ~np.isnan(values))
            self._gauge(_HELP[name], self._port, rows, values)
            if name == "softib_port_state" and seen is not None:
                of = zip(r.guid[rows].tolist(), r.portnum[rows].tolist(), strict=True)
                self._raw(down_states(seen, frozenset(of)))

    def _infos(self, r: Reading) -> None:
        lanes, signalling = r.level.get("lanes"), r.level.get("lane_gbps")
        if lanes is None or signalling is None:
            return
        if self.scheme == "guilbaults":
            good = np.flatnonzero(r.answered & ~np.isnan(lanes))
            self._gauge(_HELP["infiniband_speed"], self._of, good, signalling)
            self._gauge(_HELP["infiniband_width"], self._of, good, lanes)
            return
        assert self._uplink is not None
        raw, data = lanes * signalling * _BYTES_PER_GBIT, r.level["rate_gbps"] * _BYTES_PER_GBIT
        readable = r.answered & ~np.isnan(raw)
        ones = np.ones(len(r), np.uint64)
        up = self._switch[readable[self._switch]]
        self._gauge(_HELP["infiniband_switch_port_rate_bytes_per_second"], self._port, up, data)
        self._gauge(_HELP["infiniband_switch_port_raw_rate_bytes_per_second"], self._port, up, raw)
        for kind, which in (("switch", self._switch), ("hca", self._hca)):
            linked = which[r.answered[which] & (self.ports.peer[which] >= 0)]
            self._counter(_HELP[f"infiniband_{kind}_uplink_info"], self._uplink, linked, ones)
        self._of_devices(readable, r.answered, raw, data)

    def _of_devices(self, readable: np.ndarray, answered: np.ndarray, raw: np.ndarray, data: np.ndarray) -> None:
        first = self._devices[answered[self._devices]]
        names, guids, lids = self.ports.node, self._guid, self.ports.lid

        for kind in ("switch", "hca"):
            of = first[self.ports.switch[first] == (kind == "switch")].tolist()
            self._head(_HELP[f"infiniband_{kind}_info"])
            self._raw(
                "".join(
                    f'infiniband_{kind}_info{{guid="{guids[p]}",{kind}="{escaped(hca_name(names[p]))}",'
                    f'lid="{int(lids[p])}"}} 1\n'
                    for p in of
                )
            )
        of = first[~self.ports.switch[first] & readable[first]].tolist()
        for name, values in (
            ("infiniband_hca_rate_bytes_per_second", data),
            ("infiniband_hca_raw_rate_bytes_per_second", raw),
        ):
            self._head(_HELP[name])
            self._raw("".join(f'{name}{{guid="{guids[p]}"}} {float(values[p]):.9g}\n' for p in of))

    # -- lines --

    def _head(self, metric: Metric) -> None:
        self._raw(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n")

    def _raw(self, text: str) -> None:
        octets = np.frombuffer(text.encode(), np.uint8)
        self._room(len(octets))
        self._out[self._at : self._at + len(octets)] = octets
        self._at += len(octets)

    def _room(self, octets: int) -> None:
        if self._at + octets > len(self._out):
            larger = np.empty(max(2 * len(self._out), self._at + octets), np.uint8)
            larger[: self._at] = self._out[: self._at]
            self._out = larger

    def _counter(self, metric: Metric, labels: Labels, rows: np.ndarray, values: np.ndarray, factor: int = 1) -> None:
        if len(rows):
            name = self._begin(metric, labels, len(rows))
            self._at = int(
                write_counters(self._out, self._at, name, labels.text, labels.offsets, rows, values, np.uint64(factor))
            )

    def _gauge(self, metric: Metric, labels: Labels, rows: np.ndarray, values: np.ndarray) -> None:
        if len(rows):
            name = self._begin(metric, labels, len(rows))
            self._at = int(
                write_gauges(
                    self._out, self._at, name, labels.text, labels.offsets, rows, np.asarray(values, np.float64)
                )
            )

    def _begin(self, metric: Metric, labels: Labels, lines: int) -> np.ndarray:
        self._head(metric)
        self._room(lines * (len(metric.name) + labels.longest + LONGEST_NUMBER))
        return np.frombuffer(metric.name.encode(), np.uint8).copy()


def _first_of_device(ports: ObservedPorts) -> np.ndarray:
    """Return the first row of each switch, and every row of HCAs: treydock's exporter treats each
    port of an HCA as a device with its own PortGUID."""
    guid = ports.node_guid
    first = np.concatenate([[True], guid[1:] != guid[:-1]]) if len(guid) else np.zeros(0, bool)
    return np.flatnonzero(first | ~ports.switch)


def text_of_files(files: Sequence[str], scheme: str, fabric: str | None) -> str:
    """Return the counters and levels of the newer of one or two ``files``. Error ratios and shares of time are computed
    for the time between the two. Raises :class:`InputError` if both have the same time, or are of different fabrics."""
    shots = sorted((read_snapshot(f, fabric) for f in files), key=lambda s: int(s.reading.time_ns.max(initial=0)))
    last = shots[-1]
    ratios, interval = ErrorRatios(len(last.reading), math.inf, math.inf), None
    if len(shots) > 1:
        checked_pair(shots[0], last)
        interval = between(shots[0].reading, last.reading)
        ratios.add(interval)
    return PortText(last.ports, scheme).text(last.reading, interval, ratios).decode()
