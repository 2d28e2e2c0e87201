"""``python -m softib``: the command line, if the program ``softib`` is not on PATH."""

from softib.cli.main import main

if __name__ == "__main__":
    main()
