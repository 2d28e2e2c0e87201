"""The bit error ratio before correction from a counter of 32 bits that fills or begins again, and from the histogram; expected values are rates times time."""

from __future__ import annotations

import numpy as np
import pytest

from softib.monitor.exporter.ratios import ErrorRatios
from softib.monitor.intervals import between
from softib.monitor.reading import Reading
from softib.monitor.registers import HISTOGRAM
from tests.monitor.exporter.scraping import labels, scraped
from tests.monitor.lab import Lab, port_of

LINE = 4 * 106.25e9
"""Bits a second of 4x NDR."""
LIMIT = 2.4e-4
FULL = 2**32 - 1


def reading(second: float, symbols: float, blocks: float, bins: list[float] | None = None) -> Reading:
    r = Reading.empty(np.array([1], np.uint64), np.array([1], np.int32))
    row = np.array([0])
    r.put("port_fec_corrected_symbol_ctr", row, np.array([int(symbols)], np.uint64), FULL)
    r.put("port_fec_correctable_block_ctr", row, np.array([int(blocks)], np.uint64), FULL)
    for name, n in zip(HISTOGRAM, bins or [], strict=False):
        r.put(name, row, np.array([int(n)], np.uint64), 2**64 - 1)
    r.answered[:], r.time_ns[:] = True, int((second + 1) * 1e9)
    r.level["lanes"], r.level["lane_gbps"] = np.array([4.0]), np.array([106.25])
    return r


def ratio(ratios: ErrorRatios) -> float:
    errors, bits, _ = ratios.of("raw")
    return float(errors[0] / bits[0]) if bits[0] else float("nan")


def test_a_counter_that_fills_in_one_interval_still_passes_the_limit():
    """An hour at 1e-8, then 1e-3: 4.25e8 symbols a second, full after ten."""
    ratios = ErrorRatios(1, 3600.0)
    last = reading(0, 0, 0)
    for t in range(15, 3601, 15):
        now = reading(t, t * LINE * 1e-8, t * LINE * 1e-8)
        ratios.add(between(last, now))
        last = now
    assert ratio(ratios) == pytest.approx(1e-8, rel=1e-3)
    now = reading(3615, FULL, 1e9)
    rose = between(last, now)
    assert not rose.known["port_fec_corrected_symbol_ctr"].any()  # no increase is a guess
    ratios.add(rose)
    assert LIMIT < ratio(ratios) < 1e-3
    for t in range(3630, 3630 + 330, 15):  # it stands: nothing is known, and after the window nothing is shown
        last, now = now, reading(t, FULL, 1e9 + t)
        ratios.add(between(last, now))
    assert np.isnan(ratio(ratios))


def test_a_counter_that_begins_again_is_no_clear_and_never_tells_too_much():
    rng = np.random.default_rng(5)
    for ber in (1e-6, 1e-5, 5e-5, 3e-4):
        ratios, other = ErrorRatios(1), 0
        t, last = 0.0, None
        for _ in range(200):
            t += float(rng.uniform(1, 20))
            true = t * LINE * ber
            now = reading(t, true % 2**32, (true / 3) % 2**32)
            now.put("symbol_error_counter", np.array([0]), np.array([int(t)], np.uint64), FULL)
            if last is not None:
                rose = between(last, now)
                ratios.add(rose)
                other += int(rose.known["symbol_error_counter"][0])
            last = now
        assert 0 < ratio(ratios) <= ber * (1 + 1e-6)
        if ber < 1e-4:  # at most one beginning an interval
            assert ratio(ratios) == pytest.approx(ber, rel=1e-3) and other > 190
    cleared = between(reading(0, 5e8, 5e7), reading(10, 10, 1))
    assert not cleared.known["port_fec_corrected_symbol_ctr"].any() and not any(
        n.startswith("least_") for n in cleared.level
    )


def test_the_histogram_tells_what_the_full_counter_cannot():
    """5e-5: of 7.8e7 codewords a second of 544 symbols (10 bits each), by their expected number of bad symbols."""
    a, b = ([1e9 * s, 2e8 * s, 3e7 * s, 1e6 * s, *[0] * 12] for s in (1, 2))
    symbols = 2e8 + 2 * 3e7 + 3 * 1e6
    ratios = ErrorRatios(1)
    ratios.add(between(reading(0, FULL, FULL, a), reading(30, FULL, FULL, b)))
    assert ratio(ratios) == pytest.approx(symbols / (30 * LINE), rel=1e-9)


def test_the_ratio_before_correction_is_of_the_last_minutes():
    ratios = ErrorRatios(1, 3600.0)
    last, count = reading(0, 0, 0), 0.0
    for t in range(10, 3001, 10):
        count += 10 * LINE * (1e-9 if t <= 2600 else 1e-6)
        now = reading(t, count, count)
        ratios.add(between(last, now))
        last = now
    assert ratio(ratios) == pytest.approx(1e-6, rel=1e-3)


def test_a_full_counter_is_a_metric():
    lab = Lab()
    port = port_of(lab.fabric, "leaf-1", 3)
    lab.fabric.lane_counters["port_fec_corrected_symbol_ctr"][port] = FULL
    _, _, samples = scraped(lab)
    key = tuple(sorted((*labels(lab, port), ("counter", "port_fec_corrected_symbol_ctr"))))
    assert [k for k in samples if k[0] == "softib_port_stuck_counter"] == [("softib_port_stuck_counter", key)]
