"""Writing forwarding tables to switches: the target, the order of Sets, and their safety."""
