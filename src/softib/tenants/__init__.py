"""Partitions as a service: tenants, their partitions and members are stored in SQLite, and are
programmed into every port of a subnet through its manager."""
