"""Bit error ratios that a file states of its cables, held to the specification's floor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.finding import Finding, Severity
from softib.diags.registry import Context, check_function, code, finding

LINK_BIT_ERRORS = code(
    "link-bit-errors",
    Severity.WARNING,
    "a cable makes more bit errors than the specification allows",
    "clean or replace cable and transceivers",
)

MAX_BER = 1e-12
"""IBA volume 2: links shall have a bit error ratio below 1e-12."""


@check_function
def bit_errors(c: Context) -> Iterator[Finding]:
    """Cables of which a file states a bit error ratio above the floor. Nobody can read one from a
    fabric that runs: there the counters over time tell it
    (:mod:`softib.diags.cable_rules.bit_errors`)."""
    view = c.view
    if "ber" not in view.records:
        return
    ber = view.fabric.cable_ber[view.cable]
    for row in np.flatnonzero(ber > MAX_BER).tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        yield finding(
            LINK_BIT_ERRORS,
            [view.location(a), view.location(b)],
            f"{view.link_name(a, b)}: bit error ratio {ber[row]:g}, at most {MAX_BER:g} is allowed",
            {"ber": float(ber[row])},
        )
