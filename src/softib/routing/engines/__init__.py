"""Routing engines under OpenSM's names, a file each, with the modules they use."""
