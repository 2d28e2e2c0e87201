"""The C sources: layouts shared with other processes, and the libraries that give unmodified
programs software HCAs."""
