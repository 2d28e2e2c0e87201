"""The parts of the subnet manager, one per file, with OpenSM's names: LIDs, links, unicast,
multicast, P_Keys, QoS, congestion control."""
