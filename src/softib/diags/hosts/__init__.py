"""Finds missing, exchanged and shifted hosts from their names and port numbers."""
