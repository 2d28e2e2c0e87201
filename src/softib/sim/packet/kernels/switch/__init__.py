"""Switches: forwarding, adaptive routing, multicast, aggregation."""
