"""Finds links with little margin of forward error correction (FEC). The bit error ratio before FEC is computed from the
corrected symbols per time. PAM4 lanes always have errors. RS(544,514) corrects up to 15 symbols of a codeword, and
links are specified for a ratio of 2.4e-4 before FEC.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, blame, line_rate, span_text
from softib.diags.cable_rules.module_alarms import last_known
from softib.diags.finding import Severity, code, finding

FEC_MARGIN = code(
    "fec-margin",
    Severity.WARNING,
    "codewords needed most of the capacity of error correction",
    "clean the connectors, then replace the sending module; the next burst loses packets",
)
BINS = tuple(f"fec_codewords_{k}" for k in range(16))


def fec_histogram(case: Case) -> Iterator[Suspicion]:
    """Report cables on which a codeword used at least the threshold's share of the symbols that FEC can correct."""
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
                f"{limit[row]:.0f} that can be corrected "
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


LINK_PRE_FEC_ERRORS = code(
    "link-pre-fec-errors",
    Severity.WARNING,
    "error correction has little margin on a link",
    "clean the connectors, then replace the sending module; an error if the ratio is above the limit: packets will "
    "be lost",
)
SPAN_S = 60.0
"""Seconds over which a bit error ratio before FEC is measured."""
CORRECTED = "port_fec_corrected_symbol_ctr"
"""A counter of 32 bits. On a 4x NDR link, it saturates after 12 days at a normal bit error ratio of 1e-8, and after 10
s at 1e-3.
"""


def corrected_symbols(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the corrected symbols in each interval (float64[k, n]), and whether they are known (bool[k, n]). They are
    computed from the histogram of codewords, whose bins have 64 bits, or if there is none, from
    PortFECCorrectedSymbolCtr (32 bits; a lower bound once it saturates).
    """
    counted, symbols = case.known(CORRECTED), case.column(CORRECTED)
    least = case.level(f"least_{CORRECTED}")
    symbols, counted = np.where(counted | np.isnan(least), symbols, least), counted | ~np.isnan(least)
    counted_bins = np.logical_and.reduce([case.known(name) for name in BINS])
    corrected = sum(k * case.column(name) for k, name in enumerate(BINS))
    return np.where(counted_bins, corrected, symbols), counted | counted_bins


def corrected_and_bits(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the corrected symbols and the transferred bits of each interval (float64[k, n] each; 0 if the symbols are
    unknown or the link trained), and whether the symbols are known (bool[k, n]).
    """
    symbols, counted = corrected_symbols(case)
    usable = counted & ~case.trained
    symbols = np.where(usable, symbols, 0.0)
    bits = np.where(usable, case.span_s * case.rates * 1e9, 0.0)
    for gbps in np.unique(case.best_rate[case.best_rate > 0]).tolist():
        bits[case.rates == gbps] *= line_rate(gbps) / (gbps * 1e9)
    return symbols, bits, counted


def _over_spans(case: Case, symbols: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the bit error ratio of each span of :data:`SPAN_S` that ends with a round (float64[spans, n]; NaN if
    unknown), or of the whole time if it is shorter. The time between two readings varies with the delay of the answers,
    so the ratio of one short round is too uncertain.
    """
    end_s = np.cumsum(np.median(case.span_s, axis=1)) if case.span_s.size else np.zeros(len(symbols))
    last = np.flatnonzero(end_s >= min(SPAN_S, end_s[-1])) if len(end_s) else np.zeros(0, np.int64)
    first = np.maximum(np.searchsorted(end_s, end_s[last] - SPAN_S, side="right"), 0)
    sums = [np.concatenate([np.zeros((1, a.shape[1])), np.cumsum(a, axis=0)]) for a in (symbols, bits)]
    wrong, sent = (s[last + 1] - s[first] for s in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sent > 0, wrong / sent, np.nan)


def fec_margin(case: Case) -> Iterator[Suspicion]:
    """Report cables whose bit error ratio before FEC is near or above the limit. The ratio is computed from counters,
    or stated by the device.
    """
    symbols, bits, readable = corrected_and_bits(case)
    counted = np.fmax.reduce(_over_spans(case, symbols, bits), axis=0, initial=np.nan)
    level = case.level("pre_fec_ber")
    stated = (bits > 0) | ~np.isnan(level)
    worst = np.fmax.reduce([np.nan_to_num(counted), *level], axis=0)
    bad = np.flatnonzero(worst > case.limits["pre_fec_margin"])
    for cable in np.unique(case.cable[bad]).tolist():
        ends = [r for r in (int(cable), int(case.ports.peer[cable])) if r >= 0]
        row = max(ends, key=lambda r: worst[r])
        accused, reason = blame(case, row, worst / case.limits["pre_fec_margin"] * 10, stated)
        seconds = float(np.where(readable[:, row], case.span_s[:, row], 0.0).sum())
        limit = case.limits["pre_fec_ber"]
        severity = Severity.ERROR if worst[row] > limit else Severity.WARNING
        yield Suspicion(
            finding(
                LINK_PRE_FEC_ERRORS,
                case.ends(accused),
                f"{case.link(row)}: bit error ratio before FEC {worst[row]:.2g} into {case.location(row)} "
                f"({span_text(seconds)} observed; limit {limit:g}); {reason}",
                {
                    "pre_fec_ber": {str(case.location(r)): float(worst[r]) for r in ends},
                    "observed_s": round(seconds, 3),
                    "limit": limit,
                    "margin": case.limits["pre_fec_margin"],
                    "source": case.limits.of("pre_fec_ber").source,
                    "direction": reason,
                    **case.when(np.array(ends), CORRECTED),
                },
                severity=severity,
            ),
            accused,
            0.99,
        )
