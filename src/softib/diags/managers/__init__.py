"""Checks of subnet managers and their tables."""
