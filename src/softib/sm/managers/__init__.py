"""One manager per file, under OpenSM's names: LIDs, links, unicast, multicast, P_Keys, QoS, congestion control."""
