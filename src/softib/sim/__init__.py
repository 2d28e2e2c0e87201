"""Simulation of traffic: messages in, times and counters out, with the static, the fluid or the
packet layer."""
