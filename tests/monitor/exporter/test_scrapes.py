"""Scrapes of several exporters: a counter's increase is that of one of them, and exporters of different ports stand side by side."""

from __future__ import annotations

from softib.monitor.prometheus import Scrapes

SWITCH, HCA = (0x10, 3), (0x20, 1)


def counted(at_s: float, age_s: float, per_s: int = 100) -> tuple[float, float]:
    """A scrape at ``at_s`` of what the exporter read ``age_s`` seconds before, of a counter that rises steadily."""
    return at_s, float(int((at_s - age_s) * per_s))


def test_two_exporters_of_one_port_are_never_mixed():
    """The second one's round is 4 s older than the first one's: between them nothing may be counted, or a steady 100 a second would look like more."""
    scrapes = Scrapes()
    for instance, offset, age in (("a", 0.0, 0.0), ("b", 1.0, 4.0)):
        values = [counted(1000 + offset + 5 * i, age) for i in range(13)]
        scrapes.add(("softib", instance), "symbol_error_counter", SWITCH, values, 1)
    intervals = scrapes.intervals()
    assert len(intervals) == 12 and all(one.known["symbol_error_counter"].all() for one in intervals)
    seconds = sum(int(one.end_ns[0] - one.begin_ns[0]) for one in intervals) / 1e9
    assert seconds == 60 and sum(int(one.increase["symbol_error_counter"][0]) for one in intervals) == 6000


def test_the_exporter_that_was_up_for_longer_is_the_one():
    scrapes = Scrapes()
    scrapes.add(("softib", "a"), "symbol_error_counter", SWITCH, [counted(1000 + 5 * i, 0) for i in range(2)], 1)
    scrapes.add(("softib", "b"), "symbol_error_counter", SWITCH, [counted(1001 + 5 * i, 0) for i in range(9)], 1)
    assert len(scrapes.intervals()) == 8


def test_exporters_of_different_ports_stand_side_by_side():
    """Switches every 15 s, HCAs every 45 s at other moments: every second of both is known."""
    scrapes = Scrapes()
    scrapes.add(("switches", "x"), "link_downed_counter", SWITCH, [counted(1000 + 15 * i, 0) for i in range(13)], 1)
    scrapes.add(("hcas", "x"), "symbol_error_counter", HCA, [counted(1004 + 45 * i, 0) for i in range(5)], 1)
    intervals = scrapes.intervals()
    assert len(intervals) == 12
    rose = {SWITCH: 0, HCA: 0}
    for one in intervals:
        for name, values in one.increase.items():
            for i, key in enumerate(zip(one.guid.tolist(), one.portnum.tolist(), strict=True)):
                rose[key] += int(values[i]) if one.known[name][i] else 0
    assert rose == {SWITCH: 12 * 15 * 100, HCA: 4 * 45 * 100}


def test_one_scrape_is_no_interval():
    scrapes = Scrapes()
    assert scrapes.intervals() == [] and scrapes.most == 0
    scrapes.add(("softib", "a"), "symbol_error_counter", SWITCH, [counted(1000, 0)], 1)
    assert scrapes.intervals() == [] and scrapes.most == 1 and scrapes.last_s == 1000
