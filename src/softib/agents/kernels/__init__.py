"""The agents, by hardware part, as compiled kernels: SMA, PMA, PortInfo, keys, partitions,
counters, links and their faults."""
