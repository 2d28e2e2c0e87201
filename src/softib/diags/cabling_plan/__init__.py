"""Compares a cabling plan with a fabric, cable by cable."""
