"""Fabrics that run: starting one, serving one, asking one, programs on its nodes."""
