"""Laboratories: exercises on fabrics with a fault, and what judges a student's answer."""
