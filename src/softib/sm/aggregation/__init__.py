"""Aggregation in switches: trees over aggregation nodes, in softib's own layouts (:mod:`softib.iba.vendor.sharp`)."""
