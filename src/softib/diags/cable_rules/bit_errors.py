"""Finds cables with uncorrected bit errors. A bit error ratio is reported only if the number of errors is statistically
significant.

SymbolErrorCounter counts wrong symbols (8b/10b), wrong blocks (64b/66b) or lost codewords (RS-FEC), IBA 16.1.3.5. On a
line with R bit/s, n errors in T seconds give a ratio of n / (R T), with exact Poisson bounds. A link without errors
counts as clean after 3 / (R floor) seconds, where ``floor`` is the tolerated ratio: 125 minutes at NDR and 1e-15, which
NVIDIA also states.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, blame, line_rate, span_text, speed_name
from softib.diags.cable_rules.chances import poisson_lower, poisson_tail, poisson_upper
from softib.diags.cables.counters import LINK_BIT_ERRORS
from softib.diags.finding import Severity, code, finding
from softib.iba.rates import SPEED_BY_NAME
from softib.plural import counted, plural

__all__ = ["needed_seconds"]

SYMBOL = "symbol_error_counter"
OBSERVED_TOO_SHORT = code(
    "observed-too-short",
    Severity.INFO,
    "links were not observed long enough to be considered good",
    "observe for the time given in the finding: at the minimum bit error ratio three errors would occur in it",
)
CONFIDENCE = 0.95


def symbol_errors(case: Case) -> Iterator[Suspicion]:
    """Report cables with more bit errors than the tolerated ratio explains, over the whole time or in one interval."""
    usable = case.known(SYMBOL) & ~case.trained
    errors = np.where(usable, case.column(SYMBOL), 0.0)
    rates = np.unique(case.rates)
    bits_a_second = np.zeros_like(case.rates)
    for gbps in rates[rates > 0].tolist():
        bits_a_second[case.rates == gbps] = line_rate(gbps)
    bits = np.where(usable, case.span_s * bits_a_second, 0.0)
    total, all_bits = errors.sum(axis=0), bits.sum(axis=0)
    worst_of: dict[int, tuple[float, float, float]] = {}
    for row in np.flatnonzero(total >= case.limits["symbol_errors_least"]).tolist():
        worst = _surest(case, errors[:, row], bits[:, row], float(total[row]), float(all_bits[row]))
        if worst is not None:
            worst_of[row] = worst
    for cable in np.unique(case.cable[list(worst_of)]).tolist() if worst_of else ():
        yield _of_cable(case, int(cable), worst_of, total, usable)
    if not case.known(SYMBOL).any():
        return
    short = _too_short(case, all_bits, np.where(usable, case.span_s, 0.0).sum(axis=0))
    if short is not None:
        yield short


def _surest(
    case: Case, errors: np.ndarray, bits: np.ndarray, total: float, all_bits: float
) -> tuple[float, float, float] | None:
    """Return (errors, bits, confidence) for the whole time, or for the interval that is more significant; None if
    neither is significant.
    """
    floor = case.limits["ber_floor"]
    worst = int(errors.argmax())
    tried = [(total, all_bits), (float(errors[worst]), float(bits[worst]))]
    if tried[1][0] < case.limits["symbol_errors_least"]:
        tried.pop()
    n, of = min(tried, key=lambda t: poisson_tail(int(t[0]), t[1] * floor))
    sure, confidence = case.too_many(n, of * floor)
    return (n, of, confidence) if sure and of > 0 else None


def _of_cable(
    case: Case, cable: int, worst_of: dict[int, tuple[float, float, float]], total: np.ndarray, usable: np.ndarray
) -> Suspicion:
    ends = [r for r in (cable, int(case.ports.peer[cable])) if r >= 0]
    row = max((r for r in ends if r in worst_of), key=lambda r: worst_of[r][0] / worst_of[r][1])
    n, bits, confidence = worst_of[row]
    ratio, low, high = (
        n / bits,
        poisson_lower(int(n), (1 - CONFIDENCE) / 2) / bits,
        poisson_upper(int(n), (1 - CONFIDENCE) / 2) / bits,
    )
    seconds = float(np.where(usable[:, row], case.span_s[:, row], 0.0).sum())
    hourly = float(total[row]) / max(seconds, 1e-9) * 3600
    bad = low > case.limits["ber_specification"] or (hourly > case.limits["symbol_errors_per_hour"] and seconds >= 60)
    accused, reason = blame(case, row, total, case.known(SYMBOL))
    evidence = {
        "errors": {str(case.location(r)): int(total[r]) for r in ends},
        "observed_s": round(seconds, 3),
        "ber": ratio,
        "ber_bounds": [low, high],
        "bounds_confidence": CONFIDENCE,
        "floor": case.limits["ber_floor"],
        "source": case.limits.of("ber_floor").source,
        "errors_per_hour": round(hourly, 3),
        "direction": reason,
        **case.when(np.array(ends), SYMBOL),
    }
    # Report the ratio over the whole time. If the errors of a single interval are significant, report the ratio of that
    # interval instead.
    text = (
        f"{case.link(row)}: {int(total[row]):,} bit errors into {case.location(row)} in {span_text(seconds)}, a "
        f"ratio of {ratio:.2g} "
        f"({low:.2g} to {high:.2g}); {reason}"
    )
    severity = Severity.ERROR if bad else Severity.WARNING
    return Suspicion(
        finding(LINK_BIT_ERRORS, case.ends(accused), text, evidence, severity=severity), accused, confidence
    )


def needed_seconds(case: Case, gbps: float) -> float:
    """Return the seconds for which a link of this rate must be observed without an error, to show that its bit error
    ratio is below the tolerated one: at that ratio, three errors are expected in this time.
    """
    return 3.0 / (line_rate(gbps) * case.limits["ber_floor"])


def _too_short(case: Case, bits: np.ndarray, seconds: np.ndarray) -> Suspicion | None:
    """Report all links that were observed too briefly in one finding. ``bits``: bits on the line in ``seconds`` of
    valid observation (float64[n] each).
    """
    judged = case.known(SYMBOL).any(axis=0) & (case.best_rate > 0)
    short = np.flatnonzero(judged & (bits * case.limits["ber_floor"] < 3.0 * (1 - 1e-9)))
    if not len(short):
        return None
    most = float(seconds[short].max())
    needed = max(needed_seconds(case, g) for g in np.unique(case.best_rate[short]).tolist())
    text = (
        f"{len(short):,} of {counted(int(judged.sum()), 'port')} {plural(int(judged.sum()), 'was', 'were')} observed "
        f"for {span_text(most)} at most; {span_text(needed)} without an error "
        f"would show a bit error ratio of {case.limits['ber_floor']:g}"
    )
    return Suspicion(
        finding(
            OBSERVED_TOO_SHORT,
            [],
            text,
            {"ports": len(short), "observed_s": round(most, 3), "needed_s": round(needed, 3)},
        ),
        cable=False,
    )


def stated_ratios(case: Case) -> Iterator[Suspicion]:
    """Report cables for which a device states a bit error ratio after correction above the limit. For NDR links and
    links of unknown rate the limits are NVIDIA's levels, for other links IBA's limit. IBA's limit applies to the ratio
    after all corrections: the symbol error ratio from HDR on, the effective bit error ratio for earlier generations
    (ibdiagnet's manual).
    """
    speeds = [speed_name(r) for r in case.best_rate.tolist()]
    ndr = np.array([not s or s == "NDR" for s in speeds], bool)
    retransmits = np.array([SPEED_BY_NAME[s].code >= SPEED_BY_NAME["HDR"].code if s else False for s in speeds], bool)
    worst = {kind: np.fmax.reduce(case.level(f"{kind}_ber"), axis=0, initial=0.0) for kind in ("symbol", "effective")}
    limit = case.limits["ber_specification"]
    other = {"symbol": np.where(retransmits, limit, np.inf), "effective": np.where(retransmits, np.inf, limit)}
    warning, error = (
        {kind: np.where(ndr, case.limits[f"ndr_{kind}_{level}"], other[kind]) for kind in worst}
        for level in ("warning", "error")
    )
    above = np.fmax(worst["symbol"] / warning["symbol"], worst["effective"] / warning["effective"])
    for cable in np.unique(case.cable[np.flatnonzero(above >= 1)]).tolist():
        ends = [r for r in (cable, int(case.ports.peer[cable])) if r >= 0]
        row = max(ends, key=lambda r: above[r])
        limits = {kind: (float(warning[kind][row]), float(error[kind][row])) for kind in worst}
        kinds = [kind for kind in worst if worst[kind][row] >= limits[kind][0]]
        severe = any(worst[kind][row] >= limits[kind][1] for kind in kinds)
        stated = " and ".join(
            f"{'an' if kind == 'effective' else 'a'} {kind} bit error ratio of {worst[kind][row]:.2g} "
            f"(limit {limits[kind][0]:g})"
            for kind in kinds
        )
        evidence = {f"{kind}_ber": {str(case.location(r)): float(worst[kind][r]) for r in ends} for kind in kinds}
        source = {
            "limits": {kind: list(limits[kind]) for kind in kinds},
            "source": case.limits.of("ndr_symbol_warning" if ndr[row] else "ber_specification").source,
        }
        yield Suspicion(
            finding(
                LINK_BIT_ERRORS,
                case.ends(row),
                f"{case.link(row)}: {case.location(row)} states {stated}",
                {**evidence, **source},
                severity=Severity.ERROR if severe else Severity.WARNING,
            ),
            row,
            0.95,
        )
