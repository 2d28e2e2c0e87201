"""Cabling plans: UFM-NDT and point-to-point lists, and the search for their ends in a fabric."""
