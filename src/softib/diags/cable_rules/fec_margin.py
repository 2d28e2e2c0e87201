"""What forward error correction mends, before it fails: corrected symbols by time are the bit error ratio before FEC.

PAM4 lanes make errors always; RS(544,514) mends 15 symbols of a codeword, and links are specified to 2.4e-4 before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.blame import blame
from softib.diags.cable_rules.case import Case, Suspicion, line_rate, rule, span_text
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

LINK_PRE_FEC_ERRORS = code(
    "link-pre-fec-errors", Severity.WARNING, "error correction has little margin left on a link",
    "clean the connectors, then replace the module that sends; an error where the ratio is above the limit: packets will be lost")  # fmt: skip
CORRECTED = "port_fec_corrected_symbol_ctr"


@rule
def fec_margin(case: Case) -> Iterator[Suspicion]:
    """Cables whose bit error ratio before FEC is near or above the limit, by the counters or by what the device says itself."""
    usable = case.known(CORRECTED) & ~case.trained
    symbols = np.where(usable, case.column(CORRECTED), 0.0)
    bits = np.where(usable, case.span_s * case.rates * 1e9, 0.0)
    for gbps in np.unique(case.best_rate[case.best_rate > 0]).tolist():
        bits[case.rates == gbps] *= line_rate(gbps) / (gbps * 1e9)
    with np.errstate(invalid="ignore", divide="ignore"):
        counted = np.where(bits > 0, symbols / bits, np.nan)
    said = np.fmax(counted, case.level("pre_fec_ber"))
    worst = np.fmax.reduce(said, axis=0, initial=0.0)
    bad = np.flatnonzero(worst > case.limits["pre_fec_margin"])
    for cable in np.unique(case.cable[bad]).tolist():
        ends = [r for r in (int(cable), int(case.ports.peer[cable])) if r >= 0]
        row = max(ends, key=lambda r: worst[r])
        accused, reason = blame(case, row, worst / case.limits["pre_fec_margin"] * 10, CORRECTED)
        seconds = float(case.observed_s(CORRECTED)[row])
        limit = case.limits["pre_fec_ber"]
        severity = Severity.ERROR if worst[row] > limit else Severity.WARNING
        yield Suspicion(
            finding(LINK_PRE_FEC_ERRORS, case.ends(accused),
                    f"{case.link(row)}: bit error ratio before FEC {worst[row]:.2g} into {case.location(row)} "
                    f"({span_text(seconds)} observed; limit {limit:g}); {reason}",
                    {"pre_fec_ber": {str(case.location(r)): float(worst[r]) for r in ends}, "observed_s": round(seconds, 3),
                     "limit": limit, "margin": case.limits["pre_fec_margin"], "source": case.limits.of("pre_fec_ber").source,
                     "direction": reason, **case.when(np.array(ends), CORRECTED)}, severity=severity),
            accused, 0.99,
        )  # fmt: skip
