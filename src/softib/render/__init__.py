"""The report as text, JSON and one HTML file."""
