"""Partitions as a service: tenants, their partitions and the partitions' members are stored in SQLite, and programmed
into the ports of a subnet through its subnet manager.
"""
