"""Verbs that predict traffic and plan fabrics."""
