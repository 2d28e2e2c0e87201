"""The C side: layouts shared with other processes, and the library that gives stock programs
software HCAs."""
