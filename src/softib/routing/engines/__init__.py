"""Routing engines under OpenSM's names, a file each, with what they stand on."""
