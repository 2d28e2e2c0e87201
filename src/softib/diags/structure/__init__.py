"""What a fabric is built as, and what breaks the pattern: tiers, rails, grids, absent parts,
exchanged cables."""
