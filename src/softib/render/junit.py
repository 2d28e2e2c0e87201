"""Findings as JUnit XML, for CI servers (the schema of Jenkins' xUnit plugin: ``testsuites``,
``testsuite``, ``testcase``, ``failure``, ``system-out``)."""

from __future__ import annotations

from xml.etree import ElementTree

from softib.analysis.model import Report
from softib.diags.finding import Severity
from softib.foreign_text import shown_lines

__all__ = ["to_junit"]


def to_junit(report: Report) -> str:
    """Return a test suite for the fabric with a test case for each finding. Warnings and errors are failed cases;
    findings of severity info are passed cases. Without findings there is one passed case, because some servers treat an
    empty suite as an error."""
    findings = report.findings
    failed = sum(f.severity >= Severity.WARNING for f in findings)
    counts = {"tests": str(max(len(findings), 1)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "softib check", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": shown_lines(report.name), "skipped": "0", **counts})
    for f in findings:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": f"softib.{f.code}", "name": shown_lines("; ".join(map(str, f.where)) or f.message)},
        )
        text = shown_lines(f"{f.message}\n{f.advice}".strip())
        if f.severity >= Severity.WARNING:
            attributes = {"type": f.severity.name.lower(), "message": shown_lines(f.message)}
            ElementTree.SubElement(case, "failure", attributes).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    if not findings:
        ElementTree.SubElement(suite, "testcase", {"classname": "softib.check", "name": "no findings"})
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="us-ascii"?>\n'
        + ElementTree.tostring(root, "us-ascii").decode().split("?>\n", 1)[-1]
        + "\n"
    )
