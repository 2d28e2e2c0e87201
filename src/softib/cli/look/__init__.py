"""Verbs that read a fabric and its plan."""
