"""Cabling plans: UFM-NDT and point-to-point lists, and where their ends are in a fabric."""
