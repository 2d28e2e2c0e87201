"""Laboratories: exercises on fabrics with a fault, and the judgement of a student's answer."""
