"""What each document of ``--json`` holds, as types: the source of docs/schemas."""
