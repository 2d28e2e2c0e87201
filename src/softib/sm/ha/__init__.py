"""Mastership of a subnet that has several managers."""
