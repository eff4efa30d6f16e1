"""The command line. One module a command; each imports the library only when it runs, so that --help is instant."""

from unseen.cli.app import main

__all__ = ["main"]
