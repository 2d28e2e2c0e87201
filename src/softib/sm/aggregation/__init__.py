"""Aggregation in switches: trees over aggregation nodes, written in layouts that are softib's own
(:mod:`softib.iba.vendor.sharp`)."""
