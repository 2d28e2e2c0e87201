"""Forwarding tables on their way to the switches: what is wanted, in which order it is written,
whether it is safe."""
