"""Jobs of schedulers: files that tell which hosts each has and when it ran, and which links each
may use on a fabric."""
