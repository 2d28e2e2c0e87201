"""The C sources: the libraries that provide software HCAs to unmodified programs, and headers with the layouts that C
and Python share."""
