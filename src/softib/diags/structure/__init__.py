"""Structure of a fabric and deviations from it: tiers, rails, grids, absent parts, exchanged
cables."""
