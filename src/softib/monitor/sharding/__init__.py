"""Sharding: several exporters share one subnet, and each reads a part of its ports."""
