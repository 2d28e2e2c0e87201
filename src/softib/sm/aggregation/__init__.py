"""SHARP: trees over the aggregation nodes in switches, with MAD layouts that softib defines
(:mod:`softib.iba.vendor.sharp`)."""
