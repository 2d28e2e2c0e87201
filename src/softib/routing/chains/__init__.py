"""Engines for parts of a fabric (OpenSM's routing chains)."""
