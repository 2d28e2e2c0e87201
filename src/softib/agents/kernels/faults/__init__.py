"""Faults of links and ports: bit errors, RS-FEC, flow control that fails."""
