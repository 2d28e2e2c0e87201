"""Simulation of traffic: from messages, the static, fluid or packet layer computes times and counters."""
