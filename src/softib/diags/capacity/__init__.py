"""Capacity of the cables between parts of a fabric: cuts, and the bisection bandwidth."""
