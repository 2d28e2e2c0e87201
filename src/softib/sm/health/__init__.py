"""Devices that send too many traps, whose links fail repeatedly, or that do not answer."""
