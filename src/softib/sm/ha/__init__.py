"""The master of a subnet with several managers."""
