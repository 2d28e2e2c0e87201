"""Laboratories: exercises on fabrics with a fault, and the assessment of a student's answer."""
