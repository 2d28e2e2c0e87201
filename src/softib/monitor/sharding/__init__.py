"""Several exporters of one subnet, each of a part of its ports."""
