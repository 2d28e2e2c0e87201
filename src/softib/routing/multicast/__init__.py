"""Multicast trees."""
