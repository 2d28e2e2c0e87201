"""Baseline file of known findings, so that a check reports only new ones. The file is JSON with one entry per finding
in a stable order, so that version control shows readable differences. A finding is identified by code, severity and
locations (GUID and port number), not by its message, whose numbers change; a known finding with a higher severity is
new. The number of equal findings counts: if the baseline has one and the check finds two, the second is new.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from softib.diags.finding import Finding
from softib.errors import InputError
from softib.input_files import json_document
from softib.whole_files import write_text

__all__ = ["VERSION", "NewFindings", "fingerprint", "new_findings", "read_baseline", "write_baseline"]

VERSION = 1
KEY = "softib_baseline"


def fingerprint(finding: Finding) -> str:
    """Return 32 hex digits that identify a finding across checks of a fabric."""
    locations = sorted(f"{p.guid:016x}:{'' if p.portnum is None else p.portnum}" for p in finding.where)
    # A finding without a location (about the whole fabric, or about a row of a plan) is identified by its message, from
    # which numbers are removed.
    text = "" if locations else "".join("#" if c.isdigit() else c for c in finding.message)
    key = "\n".join((finding.code, finding.severity.name, *locations, text))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


def write_baseline(findings: Sequence[Finding], path: str | Path) -> None:
    """Write ``findings`` to a baseline file. Raises :class:`InputError` if the file cannot be written."""
    rows = [
        {
            "fingerprint": fingerprint(f),
            "code": f.code,
            "severity": f.severity.name.lower(),
            "where": [str(p) for p in f.where],
            "message": f.message,
        }
        for f in findings
    ]
    rows.sort(key=lambda row: (row["code"], row["where"], row["fingerprint"], row["message"]))
    write_text(path, json.dumps({KEY: VERSION, "findings": rows}, indent=1) + "\n")


def read_baseline(path: str | Path) -> Counter[str]:
    """Return the number of findings in the baseline for each fingerprint. Raises :class:`InputError` if the file is not
    from :func:`write_baseline`.
    """
    data = json_document(path, "baseline", "use a file written by 'softib check --write-baseline'")
    rows = data.get("findings") if isinstance(data, dict) and KEY in data else None
    if not isinstance(rows, list):
        raise InputError(f"{path}: not a softib baseline; use a file written by 'softib check --write-baseline'")
    if data[KEY] != VERSION:
        raise InputError(f"{path}: a baseline of version {data[KEY]!r}, this softib reads {VERSION}; write a new one")
    fingerprints = [row.get("fingerprint") if isinstance(row, dict) else None for row in rows]
    for i, one in enumerate(fingerprints):
        if not isinstance(one, str):
            raise InputError(f"{path}: entry {i + 1} has no fingerprint; write a new file")
    return Counter(str(one) for one in fingerprints)


class NewFindings(NamedTuple):
    """Findings compared with a baseline."""

    findings: list[Finding]
    """Findings that are not in the baseline."""
    accepted: int
    """Number of findings that are in the baseline and were reported again."""
    resolved: int
    """Number of findings in the baseline that were not reported again."""


def new_findings(findings: Sequence[Finding], accepted: Counter[str]) -> NewFindings:
    """Return the result of comparing ``findings`` with a baseline."""
    left, new = Counter(accepted), []
    for f in findings:
        mark = fingerprint(f)
        if left[mark] > 0:
            left[mark] -= 1
        else:
            new.append(f)
    return NewFindings(new, len(findings) - len(new), sum(left.values()))
