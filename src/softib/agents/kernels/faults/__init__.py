"""Faults of links and ports: bit errors, RS-FEC, and faults of flow control."""
