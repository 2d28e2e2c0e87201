"""The running fabric: the wall clock, the sockets, and the mapping that other processes read."""
