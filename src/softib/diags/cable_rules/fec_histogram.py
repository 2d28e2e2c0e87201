"""How near error correction came to its limit: the fullest codeword of the observed time, by the
histogram that the device keeps.

Independent bit errors fill the bins of a histogram binomially, so on a good link the high bins stay
empty for years: at a bit error ratio of 1e-6 a codeword of RS(544,514) with five wrong symbols
comes once in some days at 400 Gb/s, one with ten never. One that needed most of what the code can
mend shows bursts, or a ratio near the limit, before anything is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.blame import blame
from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.cable_rules.temperature import last_known
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

__all__ = ["fec_histogram"]

FEC_MARGIN = code(
    "fec-margin",
    Severity.WARNING,
    "codewords needed most of what error correction can mend",
    "clean the connectors, then replace the module that sends; the next burst is lost packets",
)
BINS = tuple(f"fec_codewords_{k}" for k in range(16))


@rule
def fec_histogram(case: Case) -> Iterator[Suspicion]:
    """Cables on which a codeword had at least the threshold's share of the symbols that the code
    can mend."""
    limit = last_known(case, "fec_corrects")
    if not np.isfinite(limit).any():
        return
    rose = np.stack([np.where(case.known(name) & ~case.trained, case.column(name), 0.0).sum(axis=0) for name in BINS])
    used = np.where(rose > 0, np.arange(len(BINS))[:, None], 0).max(axis=0)
    bad = np.flatnonzero(np.isfinite(limit) & (used >= np.ceil(case.limits["fec_bin_share"] * limit)) & (used > 0))
    for cable in np.unique(case.cable[bad]).tolist():
        ends = [r for r in (int(cable), int(case.ports.peer[cable])) if r >= 0]
        row = max(ends, key=lambda r: (used[r] if np.isfinite(limit[r]) else -1, rose[used[r], r]))
        top = int(used[row])
        most = rose[top:, row].sum()
        accused, reason = blame(
            case,
            row,
            rose[int(np.ceil(case.limits["fec_bin_share"] * limit[row])) :].sum(axis=0),
            case.known(BINS[1]),
        )
        yield Suspicion(
            finding(
                FEC_MARGIN,
                case.ends(accused),
                f"{case.link(row)}: codewords into {case.location(row)} had up to {top} wrong symbols of the "
                f"{limit[row]:.0f} that can be mended "
                f"({most:.0f} of {rose[:, row].sum():.3g} in {span_text(float(case.observed_s(BINS[0])[row]))}); "
                f"{reason}",
                {
                    "highest_bin": top,
                    "corrects": float(limit[row]),
                    "codewords": [int(v) for v in rose[: int(limit[row]) + 1, row]],
                    "share": case.limits["fec_bin_share"],
                    "source": case.limits.of("fec_bin_share").source,
                    "direction": reason,
                    **case.when(np.array(ends), BINS[top]),
                },
            ),
            accused,
            0.95,
        )
