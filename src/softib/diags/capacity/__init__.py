"""What the cables between parts of a fabric can carry: cuts and bisection."""
