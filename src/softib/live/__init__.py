"""The running fabric: its clock, its sockets, and the shared memory that other processes read."""
