"""Subnet manager and administrator: it knows the fabric only by MADs."""
