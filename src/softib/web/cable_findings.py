"""One finding a cable that is down, for as long as it is: checks and rules judge it by different
sources, and each of them sees it for a part of that time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from softib.diags.finding import Finding
from softib.web.remembered import Cable, Snapshot, cables_of

__all__ = ["one_a_cable", "says_down"]

MISSING, FELL = "missing-cable", "link-flaps"


def says_down(f: Finding) -> Cable | None:
    """The cable of which ``f`` says that it is down, its smaller end first; None: ``f`` says
    something else."""
    ends = sorted((p.guid, p.portnum) for p in f.where if p.portnum is not None)
    if len(f.where) != 2 or len(ends) != 2:
        return None
    return (ends[0], ends[1]) if f.code == MISSING or (f.code == FELL and f.evidence.get("down")) else None


def one_a_cable(found: Iterable[Finding], before: Iterable[Finding], seen: Snapshot) -> tuple[Finding, ...]:
    """``found`` with one finding for each cable that is down, worst first. One of ``before`` stays
    while its cable is down, unless ``found`` names both its ends otherwise.

    A cable that no reading has seen is the pattern's word: it stays while something else is down,
    which may hide the pattern.
    """
    here = cables_of(seen.fabric) - seen.down.keys()
    linked = {end for cable in here for end in cable}
    leads: dict[Cable, Finding] = {}
    rest: list[Finding] = []
    for f in sorted(found, key=lambda f: -f.severity):
        cable = says_down(f)
        if cable is None:
            rest.append(f)
        elif f.code == FELL and cable in here:
            rest.append(_is_up(f))
        elif cable in leads:
            leads[cable] = _with(leads[cable], f)
        else:
            leads[cable] = f
    named = [{(p.guid, p.portnum) for p in f.where} for f in rest if f.code not in (FELL, MISSING) or len(f.where) > 2]
    for f in before:
        cable = says_down(f)
        if cable is None or cable in leads or linked.intersection(cable):
            continue
        known = cable in seen.down or bool(seen.down or seen.removed or leads)
        if known and not any(locations.issuperset(cable) for locations in named):
            leads[cable] = f
    return tuple(sorted((*rest, *leads.values()), key=lambda f: -f.severity))


def _is_up(f: Finding) -> Finding:
    """A fall that was judged before its link came back."""
    return replace(f, message=f.message.removesuffix(", and is down"), evidence={**f.evidence, "down": False})


def _with(lead: Finding, also: Finding) -> Finding:
    record = {"code": also.code, "message": also.message, "evidence": also.evidence}
    return replace(lead, evidence={**lead.evidence, "also": [*lead.evidence.get("also", ()), record]})
