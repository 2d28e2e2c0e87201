"""Aggregation in switches: trees over aggregation nodes, in layouts specific to softib
(:mod:`softib.iba.vendor.sharp`)."""
