"""SLs that a partition, a QoS level or the routing engine uses, and that a port on the way drops or
starves (IBA 7.6.6, 7.6.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softib.diags.finding import Finding, Location, Severity
from softib.diags.registry import code, finding

__all__ = ["sl_findings"]

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
    """A finding for each of the subnet manager's ``SlTrouble`` (SL, its user, the first port, how
    many more of its kind)."""
    return [
        finding(
            SL_DROPPED if t.what == "drops it" else SL_WITHOUT_WEIGHT,
            [Location(t.port.rpartition("[")[0], t.guid, t.portnum)],
            str(t),
            {"sl": t.sl, "user": t.user, "kind": t.kind, "ports": t.more + 1},
        )
        for t in troubles
    ]
