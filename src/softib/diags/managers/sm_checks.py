"""Checks of the subnet managers that the source lists (``Source.sms``) or a live fabric reports.

According to IBA 14.4, one SM is master and the others are standbys. The SM with the highest priority (0-15) becomes
master; if priorities are equal, the GUID decides. The manager that ``softib up`` runs (``internal``) is part of the
fabric's process: it fails only together with the fabric and disturbs no node, so it needs neither a standby nor a
separate node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from softib.diags.context import Context
from softib.diags.finding import Finding, Location, Severity, code, finding
from softib.fabric.node_finder import state_of
from softib.fabric.subnets import subnet_of
from softib.plural import counted

SL_DROPPED = code(
    "sl-dropped",
    Severity.ERROR,
    "an SL in use maps to VL 15 at a port: its packets are dropped there",
    "map the SL to a data VL in the options of that kind of port (qos_sl2vl, qos_ca_sl2vl, qos_swe_sl2vl …)",
)
SL_WITHOUT_WEIGHT = code(
    "sl-without-weight",
    Severity.ERROR,
    "the VL of an SL in use has no weight in a port's VL arbitration tables: its packets never leave",
    "give the VL a weight in qos_vlarb_high or qos_vlarb_low of that kind of port",
)


def sl_findings(troubles: Sequence[Any]) -> list[Finding]:
    """Return a finding for each ``SlTrouble`` of the subnet manager. It has the SL, the user of the SL, the first port,
    and the number of other ports with the same fault.
    """
    return [
        finding(
            SL_DROPPED if t.what == "drops it" else SL_WITHOUT_WEIGHT,
            [Location(t.port.rpartition("[")[0], t.guid, t.portnum)],
            str(t),
            {"sl": t.sl, "user": t.user, "kind": t.kind, "ports": t.more + 1},
        )
        for t in troubles
    ]


SM_NONE = code(
    "sm-none", Severity.ERROR, "no subnet manager is master", "start OpenSM (or UFM, or the SM of a managed switch)"
)
SM_SEVERAL_MASTERS = code(
    "sm-several-masters",
    Severity.ERROR,
    "several subnet managers are master of one subnet",
    "two subnets were joined, or SMs cannot reach each other: stop all but one",
)
SM_NO_STANDBY = code(
    "sm-no-standby",
    Severity.WARNING,
    "there is no standby subnet manager",
    "start a second one: otherwise the fabric cannot react after a failure of the master",
)
SM_EQUAL_PRIORITIES = code(
    "sm-equal-priorities",
    Severity.WARNING,
    "the master and a standby have the same priority",
    "give each SM a different priority: with equal ones the GUID decides which takes over",
)
SM_ON_COMPUTE_NODE = code(
    "sm-on-compute-node",
    Severity.INFO,
    "a subnet manager runs on a node of a class with many members",
    "run it on a management node or a switch: jobs and reboots on compute nodes disturb it",
)

COMPUTE_CLASS = 8
"""Hosts whose names differ only in numbers count as compute nodes if there are at least this many."""


def subnet_managers(c: Context) -> Iterator[Finding]:
    """Apply all rules to the listed SMs. There are no findings if the source does not record SMs."""
    view = c.view
    sms = list(view.fabric.source.sms if c.sms is None else c.sms)
    if c.sms is None and not sms and "sm" not in view.records:
        return
    if not any(state_of(s) == "master" for s in sms):
        listed = f" ({len(sms)} listed, none of them master)" if sms else ""
        yield finding(
            SM_NONE, [p for s in sms if (p := _location(c, s))], f"the fabric has no master subnet manager{listed}"
        )
        return
    for of_one in _by_subnet(c, sms):
        yield from _of_subnet(c, of_one)


def _by_subnet(c: Context, sms: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return one list of managers for each subnet with a master. If only one subnet has a master, return one list with
    all managers.
    """
    f = c.view.fabric
    subnet = subnet_of(f)

    def of(sm: dict[str, Any]) -> int:
        node = sm.get("node")
        if not isinstance(node, int) or not 0 <= node < f.sizes.nodes or not len(ports := f.ports_of(node, port0=True)):
            return -1
        row = int(f.node_base[node]) + int(sm.get("portnum") or 0)
        return int(subnet[row if row in ports else ports[0]])

    numbers = [of(s) for s in sms]
    managed = dict.fromkeys(n for n, s in zip(numbers, sms, strict=True) if state_of(s) == "master")
    if len(managed) < 2 or -1 in managed:
        return [sms]
    return [[s for n, s in zip(numbers, sms, strict=True) if n == number] for number in managed]


def _of_subnet(c: Context, sms: list[dict[str, Any]]) -> Iterator[Finding]:
    masters = [s for s in sms if state_of(s) == "master"]
    standby = [s for s in sms if state_of(s) == "standby"]
    if len(masters) > 1:
        yield finding(
            SM_SEVERAL_MASTERS,
            [p for s in masters if (p := _location(c, s))],
            f"{len(masters)} subnet managers are master: {', '.join(_name(c, s) for s in masters)}",
        )
    only_master_listed = all(s.get("priority") is None for s in sms)  # .lst files list only the master
    if not standby and len(masters) == 1 and not only_master_listed and not masters[0].get("internal"):
        yield finding(
            SM_NO_STANDBY,
            [p for p in [_location(c, masters[0])] if p],
            f"{_name(c, masters[0])} is the only subnet manager, there is no standby",
            {"listed": len(sms), "states": sorted(state_of(s) for s in sms), "priority": masters[0].get("priority")},
        )
    equal = [s for s in standby if s.get("priority") is not None and s.get("priority") == masters[0].get("priority")]
    if equal and len(masters) == 1:
        both = [masters[0], *equal]
        yield finding(
            SM_EQUAL_PRIORITIES,
            [p for s in both if (p := _location(c, s))],
            f"{', '.join(_name(c, s) for s in both)} have the same priority {masters[0]['priority']}",
            {"priority": masters[0]["priority"]},
        )
    for sm in masters + standby:
        yield from _on_compute(c, sm)


def _on_compute(c: Context, sm: dict[str, Any]) -> Iterator[Finding]:
    node = sm.get("node")
    if not isinstance(node, int) or not 0 <= node < len(c.view.names) or not c.view.is_host[node]:
        return
    labels = c.pattern.labels
    if labels.class_of[node] < 0:
        return
    class_ = labels.classes[int(labels.class_of[node])]
    hosts = int(c.view.is_host.sum())
    if sm.get("internal"):
        return
    if len(class_.nodes) >= COMPUTE_CLASS:
        location = _location(c, sm)
        yield finding(
            SM_ON_COMPUTE_NODE,
            [location] if location else [],
            f"the {state_of(sm)} subnet manager runs on {_name(c, sm)}, one of {counted(len(class_.nodes), 'node')} "
            f"{class_.name}",
            {"class": class_.name, "nodes": len(class_.nodes), "hosts": hosts},
        )


def _location(c: Context, sm: dict[str, Any]) -> Location | None:
    node, view = sm.get("node"), c.view
    if isinstance(node, int) and 0 <= node < len(view.names):
        portnum = sm.get("portnum")
        return view.location_on(node, int(portnum) if portnum is not None else None)
    return None


def _name(c: Context, sm: dict[str, Any]) -> str:
    location = _location(c, sm)
    if location is not None:
        return str(location)
    guid = sm.get("guid")
    return f"an SM at {guid:#018x}" if isinstance(guid, int) else "an SM at an unknown node"
