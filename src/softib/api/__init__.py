"""The public API of ``import softib``: one module per concept. Import the names from :mod:`softib`,
not from here."""
