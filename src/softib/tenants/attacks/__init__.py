"""Attacks by a tenant's host on a twin of a fabric, for rehearsals."""
