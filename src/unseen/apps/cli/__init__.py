"""The command line: one module for each command, which parses, calls the library and prints."""

from unseen.apps.cli.app import main

__all__ = ["main"]
