"""Faults of links and ports: bit errors, RS-FEC, faulty flow control."""
