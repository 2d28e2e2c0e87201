"""Findings that are known already: a file of them, so that a check reports only what is new.

The file is JSON, for people to read and for version control: one entry a finding, in a stable
order. A finding is known by its code, its severity and its places (GUID and port number), not by
its message, whose numbers change; a known one that has become worse is new. Equal ones are counted:
a second of the same kind and place is new.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from softib.diags.finding import Finding
from softib.errors import InputError
from softib.input_files import json_document
from softib.whole_files import write_text

__all__ = ["VERSION", "fingerprint", "new_findings", "read_baseline", "write_baseline"]

VERSION = 1
KEY = "softib_baseline"


def fingerprint(finding: Finding) -> str:
    """32 hex digits that stay the same from one check of a fabric to the next."""
    locations = sorted(f"{p.guid:016x}:{'' if p.portnum is None else p.portnum}" for p in finding.where)
    # Without a place (the fabric as a whole, a row of a plan) the words identifies it, less its numbers.
    text = "" if locations else "".join("#" if c.isdigit() else c for c in finding.message)
    key = "\n".join((finding.code, finding.severity.name, *locations, text))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


def write_baseline(findings: Sequence[Finding], path: str | Path) -> None:
    """Write ``findings`` as known. Raises :class:`InputError` where the file cannot be written."""
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
    """How often each fingerprint is known. Raises :class:`InputError` where the file is none that
    :func:`write_baseline` wrote."""
    data = json_document(path, "baseline", "give a file that 'softib check --write-baseline' wrote")
    rows = data.get("findings") if isinstance(data, dict) and KEY in data else None
    if not isinstance(rows, list):
        raise InputError(f"{path}: no baseline of softib; give a file that 'softib check --write-baseline' wrote")
    if data[KEY] != VERSION:
        raise InputError(f"{path}: a baseline of version {data[KEY]!r}, this softib reads {VERSION}; write a new one")
    fingerprints = [row.get("fingerprint") if isinstance(row, dict) else None for row in rows]
    for i, one in enumerate(fingerprints):
        if not isinstance(one, str):
            raise InputError(f"{path}: entry {i + 1} has no fingerprint; write a new file")
    return Counter(str(one) for one in fingerprints)


def new_findings(findings: Sequence[Finding], known: Counter[str]) -> tuple[list[Finding], int, int]:
    """Findings that ``known`` does not hold, how many it does hold, and how many of it are
    resolved."""
    left, new = Counter(known), []
    for f in findings:
        mark = fingerprint(f)
        if left[mark] > 0:
            left[mark] -= 1
        else:
            new.append(f)
    return new, len(findings) - len(new), sum(left.values())
