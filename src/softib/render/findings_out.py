"""Findings for other programs: CSV for tables, SARIF 2.1.0 for code hosts, JUnit XML for CI servers.

Sources: RFC 4180; OASIS, *Static Analysis Results Interchange Format (SARIF) Version 2.1.0*; the JUnit schema of Jenkins' xUnit
plugin (``testsuites``, ``testsuite``, ``testcase``, ``failure``, ``system-out``).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from softib import __version__
from softib.analysis.model import Report
from softib.diags.baseline import fingerprint
from softib.diags.check import CODES
from softib.diags.finding import Finding, Severity
from softib.fabric.formats.base import Problem
from softib.foreign_text import shown_lines
from softib.render.documents import plain

__all__ = ["FORMATS", "to_csv", "to_junit", "to_sarif"]

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
"""Section 3.27.10 of SARIF."""
COLUMNS = ("severity", "code", "where", "guids", "message", "advice")


def to_csv(report: Report) -> str:
    """A row for each finding; several places of one stand in one cell, separated by ``; ``.

    A cell that a spreadsheet would take for a formula begins with an apostrophe: names come from files.
    """
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for f in report.findings:
        guids = "; ".join(f"{p.guid:#018x}" for p in f.where)
        cells = (f.severity.name.lower(), f.code, _where(f), guids, f.message, f.advice)
        table.writerow([_cell(c) for c in cells])
    return out.getvalue()


def _where(f: Finding) -> str:
    return "; ".join(str(p) for p in f.where)


def _cell(text: str) -> str:
    text = shown_lines(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def to_sarif(report: Report) -> str:
    """One run: a rule for each code that was found, a result for each finding, a notification for each unreadable record."""
    codes = sorted({f.code for f in report.findings})
    place = {code: i for i, code in enumerate(codes)}
    run = {
        "tool": {"driver": {"name": "softib", "version": __version__, "semanticVersion": __version__,
                            "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True,
                         "toolExecutionNotifications": [_notification(p) for p in report.problems]}],
        "results": [_result(report, f, place[f.code]) for f in report.findings],
    }  # fmt: skip
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = CODES[code]
    return {
        "id": code, "shortDescription": {"text": known.meaning}, "help": {"text": known.advice},
        "defaultConfiguration": {"level": LEVELS[known.severity]},
    }  # fmt: skip


def _result(report: Report, f: Finding, rule: int) -> dict[str, Any]:
    logical = [
        {"name": shown_lines(str(p)), "fullyQualifiedName": f"{p.guid:#018x}{'' if p.portnum is None else f'/{p.portnum}'}",
         "kind": "node" if p.portnum is None else "port"}
        for p in f.where
    ]  # fmt: skip
    # A fabric has no lines: the source is the file, its nodes and ports are logical locations (3.33).
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(report.source)}}}
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": f.code, "ruleIndex": rule, "level": LEVELS[f.severity], "message": {"text": shown_lines(f.message)},
        "locations": [location], "partialFingerprints": {"softib/v1": fingerprint(f)},
        "properties": {"advice": f.advice, "evidence": plain(f.evidence)},
    }  # fmt: skip


def _notification(p: Problem) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": {"uri": _uri(p.file)}}
    if p.line > 0:
        where["region"] = {"startLine": p.line}
    text = {"text": shown_lines(p.reason)}
    return {"level": "warning", "message": text, "locations": [{"physicalLocation": where}]}


def _uri(path: str) -> str:
    """A reference by RFC 3986; ``:`` of a first segment would be a scheme."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/-._~")


def to_junit(report: Report) -> str:
    """A test case for each finding, in a suite of the fabric. Warnings and errors are failures; what only informs passes. Without
    any finding there is one case that passes, for servers that take an empty suite for an error."""
    found = report.findings
    failed = sum(f.severity >= Severity.WARNING for f in found)
    counts = {"tests": str(max(len(found), 1)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "softib check", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": shown_lines(report.name), "skipped": "0", **counts})
    for f in found:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": f"softib.{f.code}", "name": shown_lines(_where(f) or f.message)}
        )
        text = shown_lines(f"{f.message}\n{f.advice}".strip())
        if f.severity >= Severity.WARNING:
            attributes = {"type": f.severity.name.lower(), "message": shown_lines(f.message)}
            ElementTree.SubElement(case, "failure", attributes).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    if not found:
        ElementTree.SubElement(suite, "testcase", {"classname": "softib.check", "name": "no findings"})
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="us-ascii"?>\n'
        + ElementTree.tostring(root, "us-ascii").decode().split("?>\n", 1)[-1]
        + "\n"
    )


FORMATS: dict[str, Callable[[Report], str]] = {"csv": to_csv, "sarif": to_sarif, "junit": to_junit}
"""What ``check --format`` offers in addition to text and JSON."""
