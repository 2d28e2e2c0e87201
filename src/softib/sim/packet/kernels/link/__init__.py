"""Links: credits, VL arbitration, discards, link state changes."""
