"""Label sets of ports, computed once per version of the fabric."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from softib.diags.observations import ObservedPorts

__all__ = ["Labels", "escaped", "guilbaults_labels", "hca_name", "port_guids", "port_labels", "uplink_labels"]


class Labels:
    """``text`` uint8[…] has all label sets; port i's set begins at ``offsets[i]`` and ends at ``offsets[i + 1]``
    (int64[n + 1])."""

    def __init__(self, sets: Iterable[str]):
        encoded = [s.encode() for s in sets]
        self.offsets = np.concatenate([[0], np.cumsum([len(s) for s in encoded])]).astype(np.int64)
        self.text = np.frombuffer(b"".join(encoded), np.uint8)
        self.longest = max(map(len, encoded), default=0)


def escaped(text: str) -> str:
    """Return a label value: backslash, quote and line feed escaped for the text format, other
    control characters removed."""
    text = "".join(c for c in text if c >= " " or c == "\n")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def port_guids(ports: ObservedPorts) -> list[str]:
    """Return the GUID of each port in treydock's exporter: the PortGUID, as shown by ``ibnetdiscover --ports``. All
    ports of a switch have the PortGUID of port 0. If the source has no PortGUID, return the NodeGUID."""
    stated = ports.text.get("port_guid")
    nodes = [f"{g:#018x}" for g in ports.node_guid.tolist()]
    return nodes if stated is None else [str(g) or n for g, n in zip(stated.tolist(), nodes, strict=True)]


def hca_name(description: str) -> str:
    """Return treydock's name of an HCA: the first word of a NodeDescription that contains `` HCA``,
    otherwise the whole description."""
    return description.split(" ")[0] if " HCA" in description else description


def port_labels(ports: ObservedPorts) -> Labels:
    """Return ``{guid="0x…",port="1"}`` as in treydock's exporter."""
    return Labels(f'{{guid="{g}",port="{p}"}}' for g, p in zip(port_guids(ports), ports.portnum.tolist(), strict=True))


def uplink_labels(ports: ObservedPorts) -> Labels:
    """Return the labels of ``infiniband_switch_uplink_info`` and ``infiniband_hca_uplink_info``."""
    sets = []
    guids, numbers, peers, names = (
        port_guids(ports),
        ports.portnum.tolist(),
        ports.peer.tolist(),
        [escaped(hca_name(n)) for n in ports.node],
    )
    switch, lids = ports.switch.tolist(), ports.lid.tolist()
    for i, peer in enumerate(peers):
        of = "switch" if switch[i] else "hca"
        remote = (
            ("", "", "", "", "")
            if peer < 0
            else (
                names[peer],
                guids[peer],
                "SW" if switch[peer] else "CA",
                str(numbers[peer]),
                str(lids[peer]),
            )
        )
        sets.append(
            f'{{guid="{guids[i]}",port="{numbers[i]}",{of}="{names[i]}",uplink="{remote[0]}",uplink_guid="{remote[1]}",uplink_type="{remote[2]}",'
            f'uplink_port="{remote[3]}",uplink_lid="{remote[4]}"}}'
        )
    return Labels(sets)


def guilbaults_labels(ports: ObservedPorts) -> Labels:
    """Return the labels of every metric of guilbaults' exporter."""
    sets = []
    guids, numbers, names = ports.node_guid.tolist(), ports.portnum.tolist(), [escaped(n) for n in ports.node]
    for i, peer in enumerate(ports.peer.tolist()):
        remote = ("", "", "") if peer < 0 else (f"{guids[peer]:#018x}", str(numbers[peer]), names[peer])
        component = "switch" if ports.switch[i] else "ca"
        sets.append(
            f'{{component="{component}",local_name="{names[i]}",local_guid="{guids[i]:#018x}",local_port="{numbers[i]}",'
            f'remote_guid="{remote[0]}",remote_port="{remote[1]}",remote_name="{remote[2]}"}}'
        )
    return Labels(sets)
