"""A fabric in a browser: a REST interface and a map, served on loopback (``softib serve``)."""
