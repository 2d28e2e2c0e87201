"""The agents as compiled kernels, one module per hardware part: SMA, PMA, PortInfo, keys,
partitions, counters, links and their faults."""
