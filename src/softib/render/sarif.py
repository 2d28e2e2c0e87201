"""Findings as SARIF, for code hosts (OASIS, *Static Analysis Results Interchange Format (SARIF)
Version 2.1.0*)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from softib import __version__
from softib.analysis.model import Report
from softib.diags.baseline import fingerprint
from softib.diags.check import CODES
from softib.diags.finding import Finding, Severity
from softib.fabric.formats.base import Problem
from softib.foreign_text import shown_lines
from softib.result import plain

__all__ = ["to_sarif"]

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
"""Severity → level in SARIF (section 3.27.10)."""


def to_sarif(report: Report) -> str:
    """Return one run: a rule for each code that was found, a result for each finding, a
    notification for each unreadable record."""
    codes = sorted({f.code for f in report.findings})
    place = {code: i for i, code in enumerate(codes)}
    run = {
        "tool": {
            "driver": {
                "name": "softib",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": [_notification(p) for p in report.problems]}
        ],
        "results": [_result(report, f, place[f.code]) for f in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    row = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": row.meaning},
        "help": {"text": row.advice},
        "defaultConfiguration": {"level": LEVELS[row.severity]},
    }


def _result(report: Report, f: Finding, rule: int) -> dict[str, Any]:
    logical = [
        {
            "name": shown_lines(str(p)),
            "fullyQualifiedName": f"{p.guid:#018x}{'' if p.portnum is None else f'/{p.portnum}'}",
            "kind": "node" if p.portnum is None else "port",
        }
        for p in f.where
    ]
    # Findings refer to no line of the file, so nodes and ports are logical locations (3.33).
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(report.source)}}}
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": f.code,
        "ruleIndex": rule,
        "level": LEVELS[f.severity],
        "message": {"text": shown_lines(f.message)},
        "locations": [location],
        "partialFingerprints": {"softib/v1": fingerprint(f)},
        "properties": {"advice": f.advice, "evidence": plain(f.evidence)},
    }


def _notification(p: Problem) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": {"uri": _uri(p.file)}}
    if p.line > 0:
        where["region"] = {"startLine": p.line}
    text = {"text": shown_lines(p.reason)}
    return {"level": "warning", "message": text, "locations": [{"physicalLocation": where}]}


def _uri(path: str) -> str:
    """Return ``path`` as a relative reference (RFC 3986), in which ``:`` in the first segment would end a scheme."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/-._~")
