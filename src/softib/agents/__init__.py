"""The agents of every device, which answer MADs from the fabric's arrays, as firmware does."""
