"""Prediction: loads of every link under a traffic pattern."""
