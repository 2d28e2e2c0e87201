"""The management plane: VL15, directed routes."""
