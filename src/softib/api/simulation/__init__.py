"""Workloads in virtual time: ``simulate``, ``compare``, ``replay``, ``scaling``, and their results."""
