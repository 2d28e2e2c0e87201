"""Cables and the ports at their ends: width, speed, modules, errors since power-up."""
