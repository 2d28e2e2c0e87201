"""Rehearsed attacks by a tenant's host, executed on a copy of a fabric (the twin)."""
