"""The initiator: controllers, paths, measurements, and the export as a network block device (NBD)."""
