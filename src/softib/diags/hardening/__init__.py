"""Checks that tenants of a fabric are isolated and its managers protected: evidence and rules."""
