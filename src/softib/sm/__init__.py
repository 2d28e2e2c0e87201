"""Subnet manager and administrator; they learn the subnet only from MADs."""
