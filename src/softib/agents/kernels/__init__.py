"""Agents by hardware part: SMA, PMA, PortInfo, keys, partitions, counters, links and their faults,
compiled."""
