"""Verbs that manage a fabric."""
