"""Routing chains, as in OpenSM: different engines route different parts of a fabric."""
