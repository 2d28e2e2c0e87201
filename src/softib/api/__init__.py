"""What ``import softib`` offers: one module a concept. Take the names from :mod:`softib` itself,
not from here."""
