"""The running fabric: wall clock, sockets, and the mapping that other processes see."""
