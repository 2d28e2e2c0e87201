"""Routing engines, one file each, under OpenSM's names, and the modules that they use."""
