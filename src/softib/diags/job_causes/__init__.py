"""From what a failed job printed to the part at fault."""
