"""Audit whether a fabric's tenants are isolated and its managers are protected."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from softib.api.findings import FindingRows
from softib.api.progress import Steps, unwatched
from softib.diags.finding import Finding
from softib.errors import InputError
from softib.result import Result
from softib.tenants.attacks.stage import Attempt

if TYPE_CHECKING:
    from softib.diags.hardening.evidence import Evidence

__all__ = ["Audit", "audit"]


@dataclass(frozen=True)
class AuditResult(Result):
    """Result of an audit."""

    document = "audit"

    source: str
    """Source of the audit; empty if only files were read."""
    ports: int
    """Number of end ports that answered."""
    managers: list[str]
    """Subnet managers: location and state."""
    findings: list[Finding]
    """The findings, worst first."""
    unjudged: list[str]
    """Data that could not be read and so was not audited, one line each."""
    attempts: list[Attempt] = field(default_factory=list)
    """With ``rehearse``: the attacks on the twin, in the order in which they ran."""


class Audit(FindingRows):
    """Findings of an audit, worst first. ``unjudged``: data that could not be read, and was therefore not audited,
    one line each. ``attempts``: attacks on the twin, each an :class:`~softib.tenants.attacks.stage.Attempt`. ``good``:
    there is no warning or error, all data could be read, and no attack succeeded."""

    def __init__(self, result: AuditResult, rows: Iterable[Finding] | None = None):
        self._result = result
        self.rows = sorted(result.findings if rows is None else rows, key=lambda f: -f.severity)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Data that could not be read and so was not audited, one line each."""
        return tuple(self._result.unjudged)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Attacks on the twin, in the order in which they ran."""
        return tuple(self._result.attempts)

    @property
    def good(self) -> bool:
        """Return whether there is no warning or error, all data could be read, and no attack succeeded (exit code 0 of
        ``softib audit``)."""
        stopped = all(a.outcome in ("stopped", "not needed") for a in self.attempts)
        return not self.at_least("warning") and not self.unjudged and stopped

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib audit --json``."""
        r = self._result
        return replace(r, findings=list(self.rows)).to_json()

    def print(self) -> None:
        """Print the text of ``softib audit``."""
        from softib.render.audit import print_audit
        from softib.render.terminal import console

        print_audit(self.to_json(), console())

    def _with(self, rows: Iterable[Finding]) -> Audit:
        return Audit(self._result, rows)


def audit(
    source: str = "",
    *,
    mkey: int = 0,
    managers: str | os.PathLike[str] | None = None,
    options: str | os.PathLike[str] | None = None,
    partitions: str | os.PathLike[str] | None = None,
    rehearse: bool = False,
    steps: Steps = unwatched,
) -> Audit:
    """Audit ``source`` (a running fabric, or the subnet of ``umad:DEVICE``), to which only Gets are sent. Also audit
    the files of its manager: ``options`` (opensm.conf) and ``partitions`` (partitions.conf).

    Without ``mkey``, requests are sent as from a host without the M_Key. With ``mkey``, they are
    sent as from the manager, and again without the key to test the protection. ``managers``: a file
    with the PortGUIDs that may run a subnet manager. ``rehearse``: start a twin of ``source`` (a
    file or a running fabric) with these files, attack it from one of its hosts, and audit the twin.

    Raises :class:`InputError` if there is nothing to audit, :class:`PeerError` if there is no
    answer.
    """
    from softib.diags.hardening.evidence import Evidence
    from softib.diags.hardening.rules import judge

    if rehearse and (not source or source.startswith("umad:")):
        raise InputError(
            "rehearse needs a fabric that softib can copy, because the attacks run on the copy; use a fabric's file or "
            "a running fabric"
        )
    if not source and options is None and partitions is None:
        raise InputError("use a running fabric or umad:DEVICE, or a manager's files")
    if not 0 <= mkey < 1 << 64:
        raise InputError(f"mkey={mkey:#x}: an M_Key has 64 bits")
    findings: list[Finding] = []
    evidence = Evidence()
    attempts: list[Attempt] = []
    if rehearse:
        evidence, attempts = _rehearse(source, mkey, managers, options, partitions, steps)
        findings += judge(evidence)
    elif source:
        evidence = _read(source, mkey, managers, steps)
        findings += judge(evidence)
    elif managers is not None:
        raise InputError("--managers lists the allowed managers of a fabric, but no fabric is given; add one")
    of_files, not_as_written = _of_files(options, partitions)
    findings += of_files
    unjudged = [*evidence.unread, *not_as_written]
    if rehearse:
        unjudged += _unlike_running(source, options, partitions)
    if source and managers is None:
        unjudged += ["the allowed subnet managers are unknown (use --managers FILE)"] * (len(evidence.managers) > 1)
    seen = [f"{m.where}: {m.state}, priority {m.priority}" for m in evidence.managers]
    findings.sort(key=lambda f: -f.severity)
    return Audit(AuditResult(source, len(evidence.ports), seen, findings, unjudged, attempts))


def _unlike_running(
    source: str, options: str | os.PathLike[str] | None, partitions: str | os.PathLike[str] | None
) -> list[str]:
    """Return notes on settings of the twin's manager that are defaults, and may differ from those of the running
    manager."""
    from softib.monitor.opening import is_live

    missing = [name for name, file in (("sm-config", options), ("partitions", partitions)) if file is None]
    if not missing or not is_live(source):
        return []
    records = " and ".join({"sm-config": "options", "partitions": "partitions"}[name] for name in missing)
    use = " ".join(f"--{name} FILE" for name in missing)
    return [f"the twin's manager has default {records}, whatever the manager of {source} has (use {use})"]


def _rehearse(
    source: str,
    mkey: int,
    managers: str | os.PathLike[str] | None,
    options: str | os.PathLike[str] | None,
    partitions: str | os.PathLike[str] | None,
    steps: Steps,
) -> tuple[Evidence, list[Attempt]]:
    """Return the evidence of a twin of ``source``, and the results of the attacks."""
    from softib.api.fabric import load
    from softib.api.running.serving import up
    from softib.api.running.staging import staged
    from softib.tenants.attacks.rehearsal import rehearse

    twin = up(load(source), name=f"rehearsal-{os.getpid()}", bound=True, sm_config=options, partitions=partitions)
    try:
        key = mkey or _configured_mkey(options)
        evidence = _read(twin.name, key, managers, steps)
        with staged(twin, key) as stage, steps("attacking"):
            return evidence, list(rehearse(stage))
    finally:
        twin.down()


def _configured_mkey(options: str | os.PathLike[str] | None) -> int:
    from softib.input_files import read_text
    from softib.sm.options.opensm_conf import as_opensm_reads

    if options is None:
        return 0
    stated = as_opensm_reads(read_text(os.fspath(options), "file of the subnet manager", errors="replace"))
    return int(str(stated.get("m_key") or 0), 0)


def _read(source: str, mkey: int, managers: str | os.PathLike[str] | None, steps: Steps) -> Evidence:
    from softib.monitor.opening import is_live, open_source
    from softib.sm.options.fabric_yaml import read_guids
    from softib.tenants.hardening import read_evidence

    allowed = None if managers is None else frozenset(read_guids(os.fspath(managers)))
    if not is_live(source):
        raise InputError(
            f"{source}: audit sends queries to devices, so it needs a running fabric (softib status lists them) or "
            f"umad:DEVICE"
        )
    opened = open_source(source, 0)  # the evidence is read with the key and without it
    try:
        with steps("asking"):
            evidence = read_evidence(opened.wire, mkey, allowed)
    finally:
        opened.close()
    if opened.other_subnets:
        evidence.unread.append(opened.other_subnets)
    return evidence


def _of_files(
    options: str | os.PathLike[str] | None, partitions: str | os.PathLike[str] | None
) -> tuple[list[Finding], list[str]]:
    """Return the findings of a manager's files, and the settings that the manager does not use as written."""
    from softib.diags.hardening.options import judge_options, judge_partitions, not_as_written
    from softib.input_files import read_text
    from softib.sm.managers.partitions import parse_partitions
    from softib.sm.options.opensm_conf import as_opensm_reads

    findings, remarks = list[Finding](), list[str]()
    if options is not None:
        name = os.fspath(options)
        stated = as_opensm_reads(read_text(name, "file of the subnet manager", errors="replace"))
        if not stated.lines:
            raise InputError(f"{name}: this is not an options file of OpenSM (opensm -c FILE writes one)")
        findings += judge_options(stated, name)
        remarks += not_as_written(stated, name)
    if partitions is not None:
        name = os.fspath(partitions)
        findings += judge_partitions(parse_partitions(read_text(name, "file of the subnet manager"), name), name)
    return findings, remarks
