"""Check whether the adapters of this host can run a job, within one second, for a scheduler's prolog."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from softib.api.arguments import Suggests
from softib.errors import InputError, UnreadableFile
from softib.host_facts.checks import NodeFault, counters_of, node_faults
from softib.host_facts.facts import HostFacts
from softib.plural import counted
from softib.result import Result, key

__all__ = ["HealthEntity", "HealthEvent", "NodeCheck", "node_check"]

FATAL = ("adapter-missing", "port-state", "unread")
"""Checks whose failure means that an adapter is unusable."""
AGENT = "softib-node-check"
STATE = "softib_node_check"
MOST_HOURS = 24 * 365.0


@dataclass(frozen=True)
class HealthEntity(Result):
    """The device that an event is about."""

    kind: str = field(metadata=key("entityType"))
    value: str = field(metadata=key("entityValue"))


@dataclass(frozen=True)
class HealthEvent(Result):
    """A health event with the fields of NVSentinel's (health_event.proto, under their JSON names)."""

    version: int
    agent: str
    component_class: str = field(metadata=key("componentClass"))
    check_name: str = field(metadata=key("checkName"))
    is_fatal: bool = field(metadata=key("isFatal"))
    is_healthy: bool = field(metadata=key("isHealthy"))
    message: str
    recommended_action: str = field(metadata=key("recommendedAction"))
    error_code: list[str] = field(metadata=key("errorCode"))
    entities: list[HealthEntity] = field(metadata=key("entitiesImpacted"))
    generated: str = field(metadata=key("generatedTimestamp"))
    node: str = field(metadata=key("nodeName"))


@dataclass(frozen=True)
class NodeCheck(Suggests, Result):
    """Result of checking a host."""

    document = "node-check"

    host: HostFacts
    faults: list[NodeFault]
    events: list[HealthEvent]
    """One event per fault; if there is no fault, one event that says so."""
    seconds: float
    """Seconds that reading the host took."""
    compared_hours: float | None
    """Hours since the counters in the state file were read; null without such a file."""

    @property
    def good(self) -> bool:
        """Return whether the host has no fault."""
        return not self.faults

    @property
    def manifest(self) -> str:
        """The current host as a manifest in YAML."""
        import yaml

        from softib.host_facts.manifest import recorded

        text: str = yaml.safe_dump(recorded(self.host), sort_keys=False, default_flow_style=False)
        return text

    def record(self, path: str | os.PathLike[str]) -> None:
        """Write :attr:`manifest` into a file. Raises :class:`InputError` if that fails."""
        from softib.whole_files import write_text

        write_text(path, self.manifest)

    def lines(self) -> list[str]:
        """Return one text line per fault; if there is none, one line about the host."""
        if self.faults:
            return [str(f) for f in self.faults]
        ports = [p for a in self.host.adapters for p in a.ports]
        seen = f"{counted(len(self.host.adapters), 'adapter')}, {counted(len(ports), 'port')}"
        return [f"{self.host.name or 'host'}: {seen}: as expected"]

    def drain(self, node: str = "") -> None:
        """Drain the node in Slurm; ``node`` is its NodeName (default: the host's short name).
        Raises :class:`PeerError`."""
        from softib.live.node_actions.slurm import drain

        drain(node or self._node, self._reason)

    def mark(self, node: str = "", api: str = "", token: str | os.PathLike[str] = "") -> bool:
        """Label and taint the node in Kubernetes, or remove the taint if there is no fault. Returns
        whether anything changed. Raises :class:`InputError` and :class:`PeerError`."""
        from softib.live.node_actions.kubernetes import Api, mark_node

        return mark_node(
            Api(api, token), node or os.environ.get("NODE_NAME", "") or self._node, not self.good, self._reason
        )

    @property
    def _node(self) -> str:
        name = self.host.name.partition(".")[0]
        if not name:
            raise InputError("the host's name is unknown; use --node")
        return name

    @property
    def _reason(self) -> str:
        return "; ".join(map(str, self.faults[:3])) + (f"; {len(self.faults) - 3} more" if len(self.faults) > 3 else "")


def node_check(
    root: str | os.PathLike[str] = "/",
    *,
    manifest: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    timeout: float = 1.0,
) -> NodeCheck:
    """Read the adapters of this host, or of the copy of its /sys in ``root``, and compare them with
    the ``manifest`` (a YAML file). None checks that every InfiniBand port is ACTIVE, that PCIe
    links run at the cards' full rate, and that ports of one kind are equally fast. ``state``: a
    file that stores the counters for the next check. ``timeout``: a host that is not read after
    this number of seconds counts as faulty. Raises :class:`InputError` or a related error for
    unreadable or unwritable files.
    """
    from softib.host_facts.manifest import Manifest, read_manifest

    wanted = Manifest() if manifest is None else read_manifest(manifest)
    before, hours = _before(state)
    began = time.monotonic()
    host = _read(root, timeout)
    took = time.monotonic() - began
    faults = node_faults(host, wanted, before, hours or 0.0)
    if state is not None:
        _keep(state, host)
    return NodeCheck(host, faults, _events(host, faults), round(took, 4), None if hours is None else round(hours, 4))


def _read(root: str | os.PathLike[str], timeout: float) -> HostFacts:
    """Return the facts of the host. If a device hangs, they contain a fault."""
    from softib.host_facts.sysfs import read_host

    name = platform.node() if os.fspath(root) == "/" else ""
    answers: list[HostFacts | Exception] = []

    def read() -> None:
        try:
            answers.append(read_host(root, name))
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=read, daemon=True)  # a hanging device blocks its reader
    thread.start()
    thread.join(timeout)
    if not answers:
        return HostFacts(name, "", [], [f"/sys did not answer within {timeout:g} s"])
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def _before(state: str | os.PathLike[str] | None) -> tuple[dict[str, Any], float | None]:
    """Return the counters in the state file, and the hours since they were read."""
    from softib.input_files import json_document

    if state is None or not os.path.exists(state):
        return {}, None
    document = json_document(state, "state of softib node-check", "remove it", 16 << 20)
    try:
        then, counters = float(document[STATE]), document["counters"]
        if not isinstance(counters, dict):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise UnreadableFile(f"{os.fspath(state)}: not a state file of softib node-check; remove it") from None
    return counters, min(max((time.time() - then) / 3600, 0.0), MOST_HOURS)


def _keep(state: str | os.PathLike[str], host: HostFacts) -> None:
    from softib.whole_files import write_text

    write_text(state, json.dumps({STATE: time.time(), "counters": counters_of(host)}))


def _events(host: HostFacts, faults: list[NodeFault]) -> list[HealthEvent]:
    from datetime import UTC, datetime

    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def event(check: str, healthy: bool, message: str, fault: NodeFault | None) -> HealthEvent:
        fatal = not healthy and check in FATAL
        entities = []
        if fault is not None and fault.adapter:
            entities = [HealthEntity("NIC", fault.adapter)]
            entities += [HealthEntity("NICPort", f"{fault.adapter}/{fault.port}")] if fault.port is not None else []
        action = "CONTACT_SUPPORT" if fatal else "NONE"
        codes = [] if healthy else [check]
        return HealthEvent(
            version=1,
            agent=AGENT,
            component_class="NIC",
            check_name=check,
            is_fatal=fatal,
            is_healthy=healthy,
            message=message,
            recommended_action=action,
            error_code=codes,
            entities=entities,
            generated=now,
            node=host.name,
        )

    if not faults:
        return [event("node-check", True, "as expected", None)]
    return [event(f.check, False, str(f), f) for f in faults]
