"""The public API of ``import softib``: one module per concept. Users import these names from
:mod:`softib`, not from here."""
