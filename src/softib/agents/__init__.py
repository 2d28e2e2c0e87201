"""The firmware of every device: it answers MADs from the fabric's arrays."""
