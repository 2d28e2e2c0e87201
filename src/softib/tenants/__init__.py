"""Partitions as a service: tenants, their partitions and members, kept in SQLite, and programmed
into every port of a subnet through its manager."""
