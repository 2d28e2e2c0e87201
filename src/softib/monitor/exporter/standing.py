"""What stands of a fabric, whether it answers or not: devices, ports with the names of both ends,
and cables."""

from __future__ import annotations

from softib.monitor.exporter.labels import escaped, hca_name
from softib.monitor.exporter.names import STANDING, Metric
from softib.monitor.seen_ports import DOWN, SeenPort, SeenPorts

__all__ = ["down_states", "standing_text"]


def standing_text(seen: SeenPorts) -> bytes:
    """``softib_device_up``, ``softib_port_info`` and ``softib_link_up`` (one a cable, from its
    :func:`_first` end) of everything that was seen."""
    names = {p.key: escaped(hca_name(p.node)) for p in seen.ports.values()}
    device, info, link = (_head(m) for m in STANDING)
    listed: set[str] = set()
    for port in seen.ports.values():
        if port.port_guid not in listed:
            listed.add(port.port_guid)
            kind, up = "switch" if port.switch else "hca", int(port.key[0] in seen.up)
            device.append(f'softib_device_up{{guid="{port.port_guid}",node="{names[port.key]}",kind="{kind}"}} {up}\n')
        other = None if port.peer is None else seen.ports.get(port.peer)
        peer = ("", "", "") if other is None else (other.port_guid, names[other.key], str(other.key[1]))
        labels = (
            f'{{guid="{port.port_guid}",port="{port.key[1]}",node="{names[port.key]}",peer_guid="{peer[0]}",peer="{peer[1]}",'
            f'peer_port="{peer[2]}"}}'
        )
        info.append(f"softib_port_info{labels} 1\n")
        if other is None or _first(port, other):
            up = int(port.down_since is None and (other is None or other.down_since is None))
            link.append(f"softib_link_up{labels} {up}\n")
    return "".join((*device, *info, *link)).encode()


def down_states(seen: SeenPorts, listed: frozenset[tuple[int, int]]) -> str:
    """Lines of ``softib_port_state`` for the ports that are down and whose state nobody told
    (``listed``: keys of those that are told)."""
    return "".join(
        f'softib_port_state{{guid="{p.port_guid}",port="{p.key[1]}"}} {DOWN}\n'
        for p in seen.down()
        if p.key not in listed
    )


def _first(port: SeenPort, other: SeenPort) -> bool:
    """The end that names a cable: the switch, whose counters outlive a host's restart; of two of a
    kind the lower GUID."""
    return (not port.switch, port.key) < (not other.switch, other.key)


def _head(metric: Metric) -> list[str]:
    return [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"]
