"""Replication: the state of a master that a standby of softib's keeps, so that a take-over changes
nothing for hosts."""
