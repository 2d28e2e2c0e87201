"""Finding codes of an acceptance, and of differences from its baseline."""

from __future__ import annotations

from softib.diags.finding import Severity, code

__all__ = [
    "BELOW_MODEL",
    "CABLE_REPLACED",
    "CLASS_DRIFT",
    "COLLECTIVE_SLOW",
    "COLLECTIVE_UNMEASURED",
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
        "all pairs of a host are slower than other pairs on similar paths",
        "check the host first (BIOS power profile, PCIe width and speed of the adapter, memory), then at its "
        "cable; a second run shows whether it persists",
    ),
    "adapter": code(
        "slow-adapter",
        Severity.WARNING,
        "all pairs of one adapter of a host are slow, those of its other adapters are not",
        "check the adapter's PCIe link (lspci -vv: LnkSta), its link's speed and width, and its cable; exchange the "
        "cables of two adapters to distinguish cable and adapter",
    ),
    "cable": code(
        "slow-cable",
        Severity.WARNING,
        "the pairs whose path crosses a cable are slow, other pairs of the same hosts are not",
        "check speed, width and error counters at both ends (softib diagnose); reseat or replace the cable; isolate "
        "it until then",
    ),
    "switch": code(
        "slow-switch",
        Severity.WARNING,
        "the pairs whose path crosses a switch are slow, other pairs of the same hosts are not",
        "compare its firmware and settings with its peers, check its temperature and counters",
    ),
}
"""Finding code for each kind of part that slow pairs share."""
HOST_UNMEASURED = code(
    "host-unmeasured",
    Severity.WARNING,
    "a host could not measure",
    "fix the reason given in the finding; softib accept --resume then measures the rest",
)
PAIR_UNMEASURED = code(
    "pair-unmeasured",
    Severity.WARNING,
    "pairs of hosts could not measure, although both hosts could with others",
    "compare partitions (P_Key), tables (softib sm explain A B) and firewalls between them",
)
PAIRS_UNEXPLAINED = code(
    "pairs-unexplained",
    Severity.WARNING,
    "pairs of hosts are slow, and no shared part explains it",
    "measure only these hosts again (softib accept --hosts): pairs that stay slow have a separate cause; several "
    "slow parts can hide each other",
)
TRAINED_LOW = code(
    "links-trained-low",
    Severity.WARNING,
    "links trained below the rate of their kind, regardless of the measurements",
    "reseat or replace the cable, check the enabled speeds and widths of both ends",
)
UNCROSSED = code(
    "cables-uncrossed",
    Severity.INFO,
    "no measured pair crossed some cables: they are not accepted",
    "use more rounds (--rounds), or include all hosts of the leaves at their ends",
)
UNPROVEN = code(
    "directions-unproven",
    Severity.WARNING,
    "directions of cables did not carry 80 % of their rate in any round of softib accept --cover",
    "the list of directions states the reason: if the assigned hosts are slow or idle, check their cables and "
    "hosts; if no route reaches the cable, use other tables (another engine, LMC) or more hosts",
)
COLLECTIVE_SLOW = code(
    "collective-slow",
    Severity.WARNING,
    "a collective of the acceptance takes longer than predicted for these hosts",
    "check pairs and cables first (softib accept without --collective, --cover); then the library's settings: "
    "adapters in use, GPUDirect, process binding, --ranks-per-host as in the command",
)
COLLECTIVE_UNMEASURED = code(
    "collective-unmeasured",
    Severity.WARNING,
    "a benchmark of collectives did not run, or nothing predicts it",
    "run its command line alone; install OSU's microbenchmarks or nccl-tests on the hosts",
)
BELOW_MODEL = code(
    "below-model",
    Severity.INFO,
    "all pairs measure less than expected from the links and latencies of their paths",
    "check the settings common to all hosts: PCIe relaxed ordering, BIOS power profile, MTU, the number of queue pairs",
)
UNPACED = code(
    "unpaced-fabric",
    Severity.INFO,
    "programs on the running fabric move data as fast as this machine copies memory, not at its links' rates",
    "to measure at link rates and latencies, run softib up SOURCE --pace, then softib accept again",
)
HOST_DRIFT = code(
    "host-drift",
    Severity.WARNING,
    "a host's pairs differ from the baseline, those of other hosts do not",
    "check for changes on the host: firmware, kernel, BIOS settings, cable",
)
FABRIC_DRIFT = code(
    "fabric-drift",
    Severity.WARNING,
    "the fabric as a whole measures less than in its baseline",
    "check for changes of the whole fabric: firmware, routing engine, drivers, other load during the run",
)
CLASS_DRIFT = code(
    "class-drift",
    Severity.WARNING,
    "pairs of one class (same leaf, across spine, across core) differ from the baseline, the others do not",
    "check the parts that only this class uses: switches and cables of that tier, the routing engine, missing "
    "uplinks (softib check)",
)
FIRMWARE_CHANGED = code(
    "firmware-changed",
    Severity.INFO,
    "devices have another firmware version than in the baseline",
    "expected after an update; softib check lists devices that missed it",
)
CABLE_REPLACED = code(
    "cable-replaced",
    Severity.INFO,
    "a cable has another serial number, part or length than in the baseline",
    "expected after a repair; record a new baseline after acceptance",
)
TOPOLOGY_CHANGED = code(
    "topology-changed",
    Severity.INFO,
    "nodes, cables, speeds or ports differ from the baseline",
    "use softib diff to list each; a moved port may be a cabling error after a repair",
)
ERRORS_SINCE_BASELINE = code(
    "errors-since-baseline",
    Severity.WARNING,
    "a port counts errors faster than it did in the baseline",
    "use softib diagnose to find the end or cable",
)
