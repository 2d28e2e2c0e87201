"""The target: a subsystem whose namespaces are files."""
