"""Faults planted in a fabric at rest."""
