"""Checks whether the tenants of a fabric are isolated and its managers protected."""
