"""Devices that babble, flap or fall silent."""
