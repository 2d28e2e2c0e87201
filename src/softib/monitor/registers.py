"""Data read from Mellanox devices with their vendor class: firmware and board (as with ``vendstat -N``), and, if
AccessRegisterGMP is supported, modules and histograms of RS-FEC."""

from __future__ import annotations

import numpy as np

from softib.foreign_text import field_text
from softib.iba.constants import MgmtClass
from softib.iba.smp import MadHeader
from softib.iba.vendor import mlnx as r
from softib.iba.vendor.mlnx import CAPABILITY_AT, CAPABLE, EXT_FW_DEVICES, VENDOR_DATA, GeneralInfo, GeneralInfoExt
from softib.mad.batch import MadBatch
from softib.monitor.module_levels import module_levels, module_texts
from softib.monitor.reading import Reading
from softib.monitor.requests import PacedGets, vendor_gets
from softib.monitor.targets import Targets

__all__ = ["HISTOGRAM", "Registers", "with_firmware"]


MELLANOX = "0x0002c9"
"""VendorID in the NodeInfo of devices that have Mellanox's vendor class."""
EXT_AT = GeneralInfo.sw_major.byte - 1


def with_firmware(targets: Targets, gets: PacedGets) -> tuple[Targets, np.ndarray]:
    """Return ``targets`` with ``text["firmware"]`` and ``text["device"]`` (the PSID) for ports of devices that answer
    (other ports keep "" and their DeviceID), and the agents whose registers can be read (bool[e])."""
    t = targets
    _, first = np.unique(t.end, return_index=True)
    wanted = np.flatnonzero(t.ports.text["vendor"][first] == MELLANOX)
    firmware, psid = np.full(len(t.end_lid), "", object), np.full(len(t.end_lid), "", object)

    registers = np.zeros(len(t.end_lid), bool)

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        masks = mad[:, VENDOR_DATA + CAPABILITY_AT : VENDOR_DATA + CAPABILITY_AT + 4].astype(np.int64)
        registers[wanted[tags]] = (masks << np.array([24, 16, 8, 0])).sum(axis=1) & CAPABLE > 0
        for end, data in zip(wanted[tags].tolist(), mad[:, VENDOR_DATA:], strict=True):
            firmware[end] = _version(data)
            psid[end] = field_text(GeneralInfo.psid.get(data)).strip()

    attr = GeneralInfo.attr
    assert attr is not None
    if len(wanted):
        batch = vendor_gets(int(MgmtClass.VENDOR_MLNX), attr, t.end_lid[wanted])
        gets.run(batch, t.end_device[wanted], len(t.device_guid), heard)
    device = np.where(psid[t.end] != "", psid[t.end], t.ports.text["device"])
    return t.with_text("firmware", firmware[t.end]).with_text("device", device), registers


def _version(data: np.ndarray) -> str:
    """Return the firmware version: the extended one, unless it is 0.0.0."""
    device = int(GeneralInfo.device_id.get(data))
    parts: tuple[int, ...] = ()
    if any(first <= device <= last for first, last in EXT_FW_DEVICES):
        ext = data[EXT_AT : EXT_AT + GeneralInfoExt.size]
        parts = tuple(int(f.get(ext)) for f in (GeneralInfoExt.major, GeneralInfoExt.minor, GeneralInfoExt.sub_minor))
    if not any(parts):
        parts = tuple(int(f.get(data)) for f in (GeneralInfo.fw_major, GeneralInfo.fw_minor, GeneralInfo.fw_sub_minor))
    return ".".join(map(str, parts)) if any(parts) else ""


HISTOGRAM = tuple(f"fec_codewords_{k}" for k in range(r.BINS))
"""Counters of a reading: codewords with k symbols corrected by RS-FEC."""


class Registers:
    """Reads register data of ``targets`` in each round. ``able`` bool[n]: ports of devices with readable
    registers; ``fec`` bool[n]: ports that count FEC results.

    The FEC code of each port, and whether the port has a module, are read once after each discovery.
    """

    def __init__(self, gets: PacedGets, targets: Targets, able: np.ndarray, fec: np.ndarray):
        self.gets, self.targets = gets, targets
        self._corrects = read_ranges(gets, targets, np.flatnonzero(able & fec))
        self._image = np.zeros((len(targets), r.ModuleInfo.size), np.uint8)
        self._plugged = np.zeros(len(targets), bool)
        rows, images = read_modules(gets, targets, np.flatnonzero(able))
        self._image[rows], self._plugged[rows] = images, images.any(axis=1)

    def texts(self) -> dict[str, np.ndarray]:
        """Return the identity of the modules, as columns of ``ObservedPorts.text``; empty without module data."""
        return module_texts(self._image) if self._plugged.any() else {}

    def histograms(self, reading: Reading) -> None:
        """Store the number of codewords for each number of symbols that RS-FEC corrected in them, and the largest
        number of symbols that it can correct."""
        rows, bins = read_histograms(
            self.gets, self.targets, np.flatnonzero(reading.answered & ~np.isnan(self._corrects))
        )
        if len(rows):
            for k, name in enumerate(HISTOGRAM):
                reading.put(name, rows, bins[:, k], 2**64 - 1)
            reading.level["fec_corrects"] = np.where(reading.answered, self._corrects, np.nan)

    def modules(self, reading: Reading, due: np.ndarray) -> None:
        """Store measurements of modules. They are read from the ports ``due``; for the other ports, store the
        measurements that were read last."""
        if not self._plugged.any():
            return
        wanted = np.flatnonzero(due & reading.answered & self._plugged)
        self._image[wanted] = 0
        rows, images = read_modules(self.gets, self.targets, wanted)
        self._image[rows] = images
        for name, values in module_levels(self._image).items():
            reading.level[name] = np.where(reading.answered, values, np.nan)


def _register_gets(number: int, targets: Targets, rows: np.ndarray, **index: int) -> MadBatch:
    batch = vendor_gets(int(MgmtClass.VENDOR_MLNX), r.ACCESS_REGISTER, targets.dlid[rows])
    MadHeader.attr_mod.set(batch.mad[:, : MadHeader.size], np.full(len(rows), number, np.uint32))
    head = r.PortRegister.zeros(len(rows))
    r.PortRegister.local_port.set(head, targets.ports.portnum[rows].astype(np.uint8))
    r.PortRegister.pnat.set(head, 1)
    for name, value in index.items():
        r.PortRegister.fields[name].set(head, value)
    batch.mad[:, r.REGISTER_AT : r.REGISTER_AT + head.shape[1]] = head
    return batch


def _read(
    gets: PacedGets, targets: Targets, rows: np.ndarray, batch: MadBatch, at: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows that answered, ``size`` bytes of each, starting at byte ``at`` of the register)."""
    got, heard_rows = [], []

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        heard_rows.append(rows[tags])
        got.append(mad[:, r.REGISTER_AT + at : r.REGISTER_AT + at + size].copy())

    if len(rows):
        gets.run(batch, targets.device[rows], len(targets.device_guid), heard)
    if not got:
        return np.zeros(0, np.int64), np.zeros((0, size), np.uint8)
    return np.concatenate(heard_rows), np.concatenate(got)


def read_modules(gets: PacedGets, targets: Targets, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that answered, and the images of the modules in these ports (uint8[k, 208]; zeros: no module)."""
    batch = _register_gets(r.PDDR, targets, rows, page_select=r.MODULE_PAGE, module_info_ext=1)
    return _read(gets, targets, rows, batch, r.PortRegister.size, r.ModuleInfo.size)


def read_histograms(gets: PacedGets, targets: Targets, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that answered, and the number of their codewords in each bin (uint64[k, 16])."""
    batch = _register_gets(r.PPCNT, targets, rows, group=r.HISTOGRAM_GROUP)
    heard, octets = _read(gets, targets, rows, batch, r.PortRegister.size, r.FecHistogram.size)
    return heard, r.FecHistogram.hist.get(octets)[:, : r.BINS].astype(np.uint64)


def read_ranges(gets: PacedGets, targets: Targets, rows: np.ndarray) -> np.ndarray:
    """Return the maximum number of symbols per codeword that the active FEC code of each port corrects (float64[n of
    targets]; NaN: no code, a code whose histogram bins cover several numbers, or no answer)."""
    limit = np.full(len(targets), np.nan)
    heard, octets = _read(gets, targets, rows, _register_gets(r.PPHCR, targets, rows), 0, r.HistogramRanges.size)
    H = r.HistogramRanges
    bins = H.num_of_bins.get(octets).astype(np.int64)
    ranges = H.bin_range.get(octets)[:, : r.BINS].astype(np.int64)
    low, high = ranges & 63, ranges >> 16 & 63
    k = np.arange(r.BINS)
    single = ((low == k) & (high == k) | (k >= bins[:, None])).all(axis=1)
    good = (H.active_hist_type.get(octets) > 0) & (bins > 1) & (bins <= r.BINS) & single
    limit[heard[good]] = H.hist_max_measurement.get(octets)[good]
    return limit
