"""Files below /sys as the programs on a host of a running fabric see them."""
