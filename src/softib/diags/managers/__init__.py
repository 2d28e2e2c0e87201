"""Subnet managers and the tables that they wrote."""
