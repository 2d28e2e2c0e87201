"""The initiator: controllers, paths, measurements, and the NBD export."""
