"""What an acceptance may find, and how a fabric may differ from its baseline."""

from __future__ import annotations

from softib.diags.finding import Severity, code

__all__ = [
    "BELOW_MODEL",
    "CABLE_REPLACED",
    "CLASS_DRIFT",
    "ERRORS_SINCE_BASELINE",
    "FABRIC_DRIFT",
    "FIRMWARE_CHANGED",
    "HOST_DRIFT",
    "HOST_UNMEASURED",
    "PAIRS_UNEXPLAINED",
    "PAIR_UNMEASURED",
    "SLOW",
    "TOPOLOGY_CHANGED",
    "TRAINED_LOW",
    "UNCROSSED",
    "UNPACED",
    "UNPROVEN",
]

SLOW = {
    "host": code(
        "slow-host",
        Severity.WARNING,
        "all pairs of a host are slower than pairs of others on like paths",
        "look at the host first (BIOS power profile, PCIe width and speed of the adapter, memory), then at its "
        "cable; a second run tells whether it stays",
    ),
    "adapter": code(
        "slow-adapter",
        Severity.WARNING,
        "all pairs of one adapter of a host are slow, those of its other adapters are not",
        "look at the adapter's PCIe link (lspci -vv: LnkSta), its link's speed and width, and its cable; exchange "
        "cables of two adapters to tell cable and adapter apart",
    ),
    "cable": code(
        "slow-cable",
        Severity.WARNING,
        "the pairs whose path takes a cable are slow, others of the same hosts are not",
        "look at its speed, width and error counters at both ends (softib diagnose); reseat or replace it; isolate "
        "it if it has to wait",
    ),
    "switch": code(
        "slow-switch",
        Severity.WARNING,
        "the pairs whose path takes a switch are slow, others of the same hosts are not",
        "compare its firmware and settings with its peers, look at its temperature and at its counters",
    ),
}
"""By what the slow pairs share."""
HOST_UNMEASURED = code(
    "host-unmeasured",
    Severity.WARNING,
    "a host could not measure",
    "the reason stands in the finding; then softib accept with --resume measures the rest",
)
PAIR_UNMEASURED = code(
    "pair-unmeasured",
    Severity.WARNING,
    "pairs of hosts could not measure, though both hosts could with others",
    "compare partitions (P_Key), tables (softib sm explain A B) and firewalls between them",
)
PAIRS_UNEXPLAINED = code(
    "pairs-unexplained",
    Severity.WARNING,
    "pairs of hosts are slow, and no part that they share with others explains it",
    "measure them again (softib accept --hosts with these alone): what stays slow has a cause of its own, several "
    "slow parts at once hide each other",
)
TRAINED_LOW = code(
    "links-trained-low",
    Severity.WARNING,
    "links trained below the rate of their kind, whatever was measured over them",
    "reseat or replace the cable, look at the enabled speeds and widths of both ends",
)
UNCROSSED = code(
    "cables-uncrossed",
    Severity.INFO,
    "no measured pair crossed some cables: nothing was accepted of them",
    "more rounds (--rounds), or all hosts of the leaves at their ends",
)
UNPROVEN = code(
    "directions-unproven",
    Severity.WARNING,
    "directions of cables did not carry 80 % of their rate in any round of softib accept --cover",
    "the bill says why: those that were to carry it are slow or idle, look at their cables and hosts; those out of "
    "reach of the routes need other tables (another engine, LMC) or more hosts",
)
BELOW_MODEL = code(
    "below-model",
    Severity.INFO,
    "all pairs alike measure less than their paths' links and latencies let expect",
    "settings that all hosts share: PCIe relaxed ordering, BIOS power profile, MTU, the number of queue pairs",
)
UNPACED = code(
    "unpaced-fabric",
    Severity.INFO,
    "programs on the running fabric move data as fast as this machine copies memory, not at its links' rates",
    "to measure against rates and latencies of links: softib up SOURCE --pace, then softib accept again",
)
HOST_DRIFT = code(
    "host-drift",
    Severity.WARNING,
    "a host's pairs measure otherwise than in the baseline, and those of the other hosts do not",
    "what has changed on it since: firmware, kernel, BIOS settings, cable",
)
FABRIC_DRIFT = code(
    "fabric-drift",
    Severity.WARNING,
    "the fabric as a whole measures less than in its baseline",
    "what has changed everywhere since: firmware, routing engine, drivers, other load during the run",
)
CLASS_DRIFT = code(
    "class-drift",
    Severity.WARNING,
    "pairs of one class (same leaf, across spine, across core) measure otherwise than in the baseline, and the "
    "others do not",
    "what lies on the paths of this class alone: switches and cables of that tier, the routing engine, uplinks that "
    "are missing (softib check)",
)
FIRMWARE_CHANGED = code(
    "firmware-changed",
    Severity.INFO,
    "devices run another firmware than in the baseline",
    "expected after an update; devices that were left out of one stand in softib check",
)
CABLE_REPLACED = code(
    "cable-replaced",
    Severity.INFO,
    "a cable has another serial number, part or length than in the baseline",
    "expected after a repair; record a new baseline once it is accepted",
)
TOPOLOGY_CHANGED = code(
    "topology-changed",
    Severity.INFO,
    "nodes, cables, speeds or ports differ from the baseline",
    "softib diff lists each; a port that moved may be a miscabling after a repair",
)
ERRORS_SINCE_BASELINE = code(
    "errors-since-baseline",
    Severity.WARNING,
    "a port counts errors faster than it did in the baseline",
    "softib diagnose says which end or cable it is",
)
