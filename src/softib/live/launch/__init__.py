"""Starting programs on a node: preload libraries, namespaces, ranks, port locks."""
