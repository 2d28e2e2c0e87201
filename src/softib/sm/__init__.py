"""Subnet manager and administrator; it learns the subnet only from MADs."""
