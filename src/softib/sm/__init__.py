"""Subnet manager and administrator; it learns the subnet from MADs alone."""
