"""Hosts by their names and their order: who is missing, exchanged or shifted."""
