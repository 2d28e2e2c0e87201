"""Planning a fabric: designs, cables, cost, quotes, advice."""
