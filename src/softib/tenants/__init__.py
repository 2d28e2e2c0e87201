"""Partitions as a service: stores tenants, their partitions and the members of partitions in SQLite, and programs the
partitions into the ports of a subnet through its subnet manager.
"""
