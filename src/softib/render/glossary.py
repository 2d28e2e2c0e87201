"""The meaning of the report's terms, for readers who are new to InfiniBand. The page shows them as tooltips."""

from __future__ import annotations

GLOSSARY: dict[str, str] = {
    "switch": "A box that forwards packets between its ports.",
    "leaf": "A switch to which hosts are cabled.",
    "spine": "A switch that connects leaves.",
    "core": "A switch that connects spines of different parts.",
    "CA": "Channel adapter: the InfiniBand card of a host (HCA), or an aggregation node inside a switch.",
    "SHARP": "Aggregation nodes inside switches that reduce data in the network; they count as channel adapters.",
    "LID": "Local identifier: the 16-bit address that the subnet manager gives to a port.",
    "GUID": "64-bit identity of a node or port, assigned by the manufacturer.",
    "subnet manager": (
        "The program that discovers the fabric, assigns addresses and writes every switch's forwarding table."
    ),
    "MAD": "Management datagram: the 256-byte packet with which the subnet manager and devices communicate.",
    "forwarding table": "The port to which a switch forwards packets, for each destination address.",
    "credit loop": (
        "Links that wait for each other's buffers in a circle: their traffic can stop permanently (deadlock)."
    ),
    "virtual lane": "One of several independent buffers that share a link (VL).",
    "effective bisection bandwidth": (
        "Mean share of their own link that hosts get when random pairs between two halves of the fabric "
        "send at the same time."
    ),
    "bisection": (
        "Bandwidth between the two halves of the hosts with the least capacity between them; full means "
        "that every host can send at full rate to the other half."
    ),
    "narrowest part": "The group of hosts that can send the smallest share of its links' rate to all other hosts.",
    "load": (
        "Share of a link that a pattern needs if every host sends at full rate: 1 is exactly full, 2 "
        "takes twice as long."
    ),
    "shift": "Every host sends to the host k places further; all shifts together are an all-to-all.",
    "all-to-all": "Every host sends to every other.",
    "incast": "Many hosts send to one host, and share its link.",
    "ring allreduce": "Hosts in a ring add up a vector in parts: 2 (n - 1) steps of 1/n of it.",
    "hop": "A switch on the path of a packet: 1 between hosts on one switch, 0 from a host to its own switch.",
    "rail": "The n-th adapters of all hosts, usually on separate leaves.",
    "oversubscription": "Host ports per uplink of a leaf. At 1:1 the uplinks carry all traffic of the leaf's hosts.",
    "engine": "The algorithm that computes forwarding tables, under OpenSM's names.",
}
