"""Simulation of traffic: the static, the fluid or the packet layer computes times and counters from messages."""
