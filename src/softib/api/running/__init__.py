"""Running fabrics: starting, serving and querying them, and programs on their nodes."""
