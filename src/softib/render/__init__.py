"""Output of results as text, as HTML pages, and in formats of other programs."""
